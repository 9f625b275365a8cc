"""The object that applications use."""

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
