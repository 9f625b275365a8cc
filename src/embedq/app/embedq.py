"""The object that applications use."""

from collections.abc import Awaitable, Callable

from embedq.client import Client, ClientOptions
from embedq.client.queries import Embedders
from embedq.operator import Operator
from embedq.ports import UserStore
from embedq.telemetry import Telemetry


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
    ) -> None:
        """Combine client and operator of one database."""
        super().__init__(store, embedders, options=options, telemetry=telemetry)
        self.operator = operator
        self.on_close: Callable[[], Awaitable[None]] = super().close  # `open` has more to close

    async def close(self) -> None:
        """Stop the workers of this process and close the database, as the end of the block does; twice is once."""
        await self.on_close()
