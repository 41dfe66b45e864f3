"""How many replicas a service should have: `decide()`, pure, from the engines' own metrics."""

from octavo_operator.autoscaler.decide import decide as decide
from octavo_operator.autoscaler.state import load_state as load_state
from octavo_operator.autoscaler.state import store_state as store_state
