"""What `auto` is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.random_models import random_model

from oneglance.checkpoints.catalog import CATALOG
from oneglance.config import WeightsForm
from oneglance.drafters.auto import auto_parts
