// Writes new keys and values to the cache.
#pragma once

#include "../attention_arguments.h"
#include "lanes.h"

namespace oneglance::ONEGLANCE_ISA {
namespace {

template <typename Element>
inline void store_key(const KvHead& head, int page, int slot, const float* key) {
  Element* target = head.keys<Element>(page) + head.key_index(slot, 0);
  for (int d = 0; d < head.head_dim; d += kLanes) {
    Element rounded[kLanes];
    store(rounded, load(key + d));
    for (int i = 0; i < kLanes; ++i) target[(d + i) * kStripLanes] = rounded[i];
  }
}

template <typename Element>
inline void store_value(const KvHead& head, int page, int slot, const float* value) {
  for (int strip = 0; strip < head.head_dim / kStripLanes; ++strip) {
    store(head.values<Element>(page) + head.value_index(slot, strip),
          load(value + strip * kStripLanes));
  }
}

template <typename Element>
inline void store_rows(const KvStoreArguments& arguments) {
  const KvHead& head = arguments.head;
  for (int row = 0; row < arguments.rows; ++row) {
    const int index = arguments.first_slot + row;
    const int page = arguments.pages[index / head.page_size];
    const int slot = index % head.page_size;
    const int64_t offset = row * arguments.ld;
    if (arguments.keys) store_key<Element>(head, page, slot, arguments.keys + offset);
    if (arguments.values) store_value<Element>(head, page, slot, arguments.values + offset);
  }
}

void store_kv(const KvStoreArguments& arguments) {
  if (arguments.head.is_half) {
    store_rows<uint16_t>(arguments);
  } else {
    store_rows<float>(arguments);
  }
}

}  // namespace
}  // namespace oneglance::ONEGLANCE_ISA
