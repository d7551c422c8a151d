import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

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
    __slots__ = ("served_model", "items", "tenant", "lane")
    SERVED_MODEL_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    served_model: str
    items: _containers.RepeatedCompositeFieldContainer[RankItem]
    tenant: str
    lane: str
    def __init__(self, served_model: _Optional[str] = ..., items: _Optional[_Iterable[_Union[RankItem, _Mapping]]] = ..., tenant: _Optional[str] = ..., lane: _Optional[str] = ...) -> None: ...

class RankItem(_message.Message):
    __slots__ = ("id", "prompt")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    prompt: str
    def __init__(self, id: _Optional[str] = ..., prompt: _Optional[str] = ...) -> None: ...

class RankResponse(_message.Message):
    __slots__ = ("ranker", "served_model", "forecasts", "fallback")
    RANKER_FIELD_NUMBER: _ClassVar[int]
    SERVED_MODEL_FIELD_NUMBER: _ClassVar[int]
    FORECASTS_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    ranker: RankerVersion
    served_model: str
    forecasts: _containers.RepeatedCompositeFieldContainer[Forecast]
    fallback: bool
    def __init__(self, ranker: _Optional[_Union[RankerVersion, _Mapping]] = ..., served_model: _Optional[str] = ..., forecasts: _Optional[_Iterable[_Union[Forecast, _Mapping]]] = ..., fallback: _Optional[bool] = ...) -> None: ...

class RankerVersion(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Forecast(_message.Message):
    __slots__ = ("id", "score", "levels", "quantiles", "novelty", "trust", "sketch")
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    QUANTILES_FIELD_NUMBER: _ClassVar[int]
    NOVELTY_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    SKETCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    score: float
    levels: _containers.RepeatedScalarFieldContainer[float]
    quantiles: _containers.RepeatedScalarFieldContainer[float]
    novelty: float
    trust: float
    sketch: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, id: _Optional[str] = ..., score: _Optional[float] = ..., levels: _Optional[_Iterable[float]] = ..., quantiles: _Optional[_Iterable[float]] = ..., novelty: _Optional[float] = ..., trust: _Optional[float] = ..., sketch: _Optional[_Iterable[float]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("request_id", "served_model", "output_tokens", "finish_reason", "arrival_time", "finish_time", "prompt_tokens", "forecast", "ranker", "tenant", "lane")
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
    def __init__(self, request_id: _Optional[str] = ..., served_model: _Optional[str] = ..., output_tokens: _Optional[int] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., arrival_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., prompt_tokens: _Optional[int] = ..., forecast: _Optional[_Union[Forecast, _Mapping]] = ..., ranker: _Optional[_Union[RankerVersion, _Mapping]] = ..., tenant: _Optional[str] = ..., lane: _Optional[str] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ("request_id", "served_model", "output_tokens", "arrival_time", "seen_time", "prompt_tokens", "forecast", "ranker", "tenant", "lane")
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
    def __init__(self, request_id: _Optional[str] = ..., served_model: _Optional[str] = ..., output_tokens: _Optional[int] = ..., arrival_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seen_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., prompt_tokens: _Optional[int] = ..., forecast: _Optional[_Union[Forecast, _Mapping]] = ..., ranker: _Optional[_Union[RankerVersion, _Mapping]] = ..., tenant: _Optional[str] = ..., lane: _Optional[str] = ...) -> None: ...

class ReportOutcomesRequest(_message.Message):
    __slots__ = ("outcomes", "open", "reporter", "sent_time")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    REPORTER_FIELD_NUMBER: _ClassVar[int]
    SENT_TIME_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    open: _containers.RepeatedCompositeFieldContainer[OpenRequest]
    reporter: str
    sent_time: _timestamp_pb2.Timestamp
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., open: _Optional[_Iterable[_Union[OpenRequest, _Mapping]]] = ..., reporter: _Optional[str] = ..., sent_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReportOutcomesResponse(_message.Message):
    __slots__ = ("stored", "duplicates", "conflicts")
    STORED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    stored: int
    duplicates: int
    conflicts: int
    def __init__(self, stored: _Optional[int] = ..., duplicates: _Optional[int] = ..., conflicts: _Optional[int] = ...) -> None: ...
