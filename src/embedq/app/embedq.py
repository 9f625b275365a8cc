"""The object that applications use."""

from collections.abc import Awaitable, Callable

from embedq.client import Client, ClientOptions
from embedq.client.queries import Embedders
from embedq.operator import Operator
from embedq.ports import UserStore
from embedq.telemetry import Telemetry

Close = Callable[[], Awaitable[None]]


class EmbedQ(Client):
    """The client's methods, with the operator's under `operator`."""

    def __init__(
        self,
        store: UserStore,
        embedders: Embedders,
        *,
        options: ClientOptions,
        telemetry: Telemetry,
        operator: Operator,
        close: Close | None = None,
    ) -> None:
        """Combine client and operator of one database; `close` closes more than the client's own, if something does."""
        super().__init__(store, embedders, options=options, telemetry=telemetry)
        self.operator = operator
        self._close: Close = close or super().close

    async def close(self) -> None:
        """Stop the workers of this process and close the database, as the end of the block does; twice is once."""
        await self._close()
