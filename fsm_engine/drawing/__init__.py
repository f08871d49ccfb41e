"""How a lifecycle, or one way through it, becomes a picture; `fsm_engine.diagram` is the front door."""

__all__: list[str] = []
