import datetime
from collections.abc import Iterable as _Iterable
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar

from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper

DESCRIPTOR: _descriptor.FileDescriptor

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_ABORT: _ClassVar[FinishReason]
    FINISH_REASON_ERROR: _ClassVar[FinishReason]

FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_ABORT: FinishReason
FINISH_REASON_ERROR: FinishReason

class RankRequest(_message.Message):
    __slots__ = ("items", "served_model")
    SERVED_MODEL_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    served_model: str
    items: _containers.RepeatedCompositeFieldContainer[RankItem]
    def __init__(
        self, served_model: str | None = ..., items: _Iterable[RankItem | _Mapping] | None = ...
    ) -> None: ...

class RankItem(_message.Message):
    __slots__ = ("id", "prompt")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    prompt: str
    def __init__(self, id: str | None = ..., prompt: str | None = ...) -> None: ...

class RankResponse(_message.Message):
    __slots__ = ("fallback", "forecasts", "ranker", "served_model")
    RANKER_FIELD_NUMBER: _ClassVar[int]
    SERVED_MODEL_FIELD_NUMBER: _ClassVar[int]
    FORECASTS_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    ranker: RankerVersion
    served_model: str
    forecasts: _containers.RepeatedCompositeFieldContainer[Forecast]
    fallback: bool
    def __init__(
        self,
        ranker: RankerVersion | _Mapping | None = ...,
        served_model: str | None = ...,
        forecasts: _Iterable[Forecast | _Mapping] | None = ...,
        fallback: bool | None = ...,
    ) -> None: ...

class RankerVersion(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: str | None = ..., version: str | None = ...) -> None: ...

class Forecast(_message.Message):
    __slots__ = ("id", "levels", "novelty", "quantiles", "score")
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    QUANTILES_FIELD_NUMBER: _ClassVar[int]
    NOVELTY_FIELD_NUMBER: _ClassVar[int]
    id: str
    score: float
    levels: _containers.RepeatedScalarFieldContainer[float]
    quantiles: _containers.RepeatedScalarFieldContainer[float]
    novelty: float
    def __init__(
        self,
        id: str | None = ...,
        score: float | None = ...,
        levels: _Iterable[float] | None = ...,
        quantiles: _Iterable[float] | None = ...,
        novelty: float | None = ...,
    ) -> None: ...

class Outcome(_message.Message):
    __slots__ = (
        "arrival_time",
        "finish_reason",
        "finish_time",
        "forecast",
        "lane",
        "output_tokens",
        "prompt_tokens",
        "ranker",
        "request_id",
        "served_model",
        "tenant",
    )
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SERVED_MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    RANKER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    served_model: str
    output_tokens: int
    finish_reason: FinishReason
    arrival_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    prompt_tokens: int
    forecast: Forecast
    ranker: RankerVersion
    tenant: str
    lane: str
    def __init__(
        self,
        request_id: str | None = ...,
        served_model: str | None = ...,
        output_tokens: int | None = ...,
        finish_reason: FinishReason | str | None = ...,
        arrival_time: datetime.datetime | _timestamp_pb2.Timestamp | _Mapping | None = ...,
        finish_time: datetime.datetime | _timestamp_pb2.Timestamp | _Mapping | None = ...,
        prompt_tokens: int | None = ...,
        forecast: Forecast | _Mapping | None = ...,
        ranker: RankerVersion | _Mapping | None = ...,
        tenant: str | None = ...,
        lane: str | None = ...,
    ) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = (
        "arrival_time",
        "forecast",
        "lane",
        "output_tokens",
        "prompt_tokens",
        "ranker",
        "request_id",
        "seen_time",
        "served_model",
        "tenant",
    )
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SERVED_MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_TIME_FIELD_NUMBER: _ClassVar[int]
    SEEN_TIME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    RANKER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    served_model: str
    output_tokens: int
    arrival_time: _timestamp_pb2.Timestamp
    seen_time: _timestamp_pb2.Timestamp
    prompt_tokens: int
    forecast: Forecast
    ranker: RankerVersion
    tenant: str
    lane: str
    def __init__(
        self,
        request_id: str | None = ...,
        served_model: str | None = ...,
        output_tokens: int | None = ...,
        arrival_time: datetime.datetime | _timestamp_pb2.Timestamp | _Mapping | None = ...,
        seen_time: datetime.datetime | _timestamp_pb2.Timestamp | _Mapping | None = ...,
        prompt_tokens: int | None = ...,
        forecast: Forecast | _Mapping | None = ...,
        ranker: RankerVersion | _Mapping | None = ...,
        tenant: str | None = ...,
        lane: str | None = ...,
    ) -> None: ...

class ReportOutcomesRequest(_message.Message):
    __slots__ = ("open", "outcomes", "reporter", "sent_time")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    REPORTER_FIELD_NUMBER: _ClassVar[int]
    SENT_TIME_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    open: _containers.RepeatedCompositeFieldContainer[OpenRequest]
    reporter: str
    sent_time: _timestamp_pb2.Timestamp
    def __init__(
        self,
        outcomes: _Iterable[Outcome | _Mapping] | None = ...,
        open: _Iterable[OpenRequest | _Mapping] | None = ...,
        reporter: str | None = ...,
        sent_time: datetime.datetime | _timestamp_pb2.Timestamp | _Mapping | None = ...,
    ) -> None: ...

class ReportOutcomesResponse(_message.Message):
    __slots__ = ("conflicts", "duplicates", "stored")
    STORED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    stored: int
    duplicates: int
    conflicts: int
    def __init__(
        self, stored: int | None = ..., duplicates: int | None = ..., conflicts: int | None = ...
    ) -> None: ...
