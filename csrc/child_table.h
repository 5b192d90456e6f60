// Which child of a node begins with which token: one hash table for a whole tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace oneglance {

// Open addressing with linear probing. At most 3/4 full, and never shrinks: a tree that forgets
// old sequences takes in as much again.
class ChildTable {
 public:
  // The child, or -1.
  int32_t find(int32_t parent, int32_t token) const {
    return slots_[locate(parent, token)].child;
  }

  // Sets the child, in the place of the one that was there.
  void set(int32_t parent, int32_t token, int32_t child) {
    const std::size_t slot = locate(parent, token);
    if (slots_[slot].child < 0) ++size_;
    slots_[slot] = {parent, token, child};
    if (4 * size_ > 3 * slots_.size()) grow();
  }

  // Forgets a child that is there.
  void erase(int32_t parent, int32_t token) {
    std::size_t hole = locate(parent, token);
    // Whatever was pushed past the hole moves back into it, so that no search ends too early.
    for (std::size_t slot = next(hole); slots_[slot].child >= 0; slot = next(slot)) {
      const std::size_t home = hash(slots_[slot].parent, slots_[slot].token);
      if (((slot - home) & mask()) < ((slot - hole) & mask())) continue;
      slots_[hole] = slots_[slot];
      hole = slot;
    }
    slots_[hole] = Slot{};
    --size_;
  }

  std::size_t num_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    int32_t parent = -1;
    int32_t token = -1;
    int32_t child = -1;
  };

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t next(std::size_t slot) const { return (slot + 1) & mask(); }

  std::size_t hash(int32_t parent, int32_t token) const {
    const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32 |
                         static_cast<uint32_t>(token);
    const uint64_t product = key * 0x9E3779B97F4A7C15ull;  // Fibonacci hashing
    return static_cast<std::size_t>((product ^ product >> 32) & mask());
  }

  // The slot of this key, or the empty one where it would go.
  std::size_t locate(int32_t parent, int32_t token) const {
    std::size_t slot = hash(parent, token);
    while (slots_[slot].child >= 0 &&
           (slots_[slot].parent != parent || slots_[slot].token != token)) {
      slot = next(slot);
    }
    return slot;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& slot : old) {
      if (slot.child >= 0) slots_[locate(slot.parent, slot.token)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of two
  std::size_t size_ = 0;
};

}  // namespace oneglance
