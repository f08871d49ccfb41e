"""An order desk: real tools on a real database and a real service that fails, hangs and recovers.

`fsm-engine demo` plays it; the tools alone need no extra.
"""

from .database import create_database
from .desk import OrderDesk
from .service import ShopService
from .tools import calculator, search_web

__all__ = ["OrderDesk", "ShopService", "calculator", "create_database", "search_web"]
