"""The facts: what the journal holds, and what state is folded from.

Facts are coarse (DESIGN 2): what a fact implies is not written again.
`RunStarted` implies the claims and the invocation, `RunSuspended` and
`RunEnded` the releases, `StepFailed` its retry's timer.
"""

from duraton_schemas.records.journal.events import CronArmed as CronArmed
from duraton_schemas.records.journal.events import CronFired as CronFired
from duraton_schemas.records.journal.events import DedupeClaimed as DedupeClaimed
from duraton_schemas.records.journal.events import DedupeExpired as DedupeExpired
from duraton_schemas.records.journal.events import EventClaimed as EventClaimed
from duraton_schemas.records.journal.events import EventDropped as EventDropped
from duraton_schemas.records.journal.events import EventHeld as EventHeld
from duraton_schemas.records.journal.events import EventRecorded as EventRecorded
from duraton_schemas.records.journal.events import Home as Home
from duraton_schemas.records.journal.gates import AskClosed as AskClosed
from duraton_schemas.records.journal.gates import AskGone as AskGone
from duraton_schemas.records.journal.gates import AskMoved as AskMoved
from duraton_schemas.records.journal.gates import AsksDropped as AsksDropped
from duraton_schemas.records.journal.gates import AskStood as AskStood
from duraton_schemas.records.journal.gates import Held as Held
from duraton_schemas.records.journal.gates import HoldingReported as HoldingReported
from duraton_schemas.records.journal.gates import PlaceGranted as PlaceGranted
from duraton_schemas.records.journal.gates import PlacesAsked as PlacesAsked
from duraton_schemas.records.journal.gates import PlacesReleased as PlacesReleased
from duraton_schemas.records.journal.gates import ProbeAnswered as ProbeAnswered
from duraton_schemas.records.journal.gates import RunGates as RunGates
from duraton_schemas.records.journal.gates import RunsRegated as RunsRegated
from duraton_schemas.records.journal.gates import StartProbed as StartProbed
from duraton_schemas.records.journal.owner import CommandParked as CommandParked
from duraton_schemas.records.journal.owner import InputGap as InputGap
from duraton_schemas.records.journal.owner import InputPosition as InputPosition
from duraton_schemas.records.journal.owner import OwnerAlive as OwnerAlive
from duraton_schemas.records.journal.owner import OwnerTook as OwnerTook
from duraton_schemas.records.journal.owner import Positions as Positions
from duraton_schemas.records.journal.registry import PartitionReported as PartitionReported
from duraton_schemas.records.journal.registry import RegistrationApplied as RegistrationApplied
from duraton_schemas.records.journal.registry import RegistryChanged as RegistryChanged
from duraton_schemas.records.journal.registry import ShapeAnswered as ShapeAnswered
from duraton_schemas.records.journal.registry import ShapeIdle as ShapeIdle
from duraton_schemas.records.journal.registry import ShapeRequested as ShapeRequested
from duraton_schemas.records.journal.runs import InvokeFailed as InvokeFailed
from duraton_schemas.records.journal.runs import RunAttemptFailed as RunAttemptFailed
from duraton_schemas.records.journal.runs import RunCreated as RunCreated
from duraton_schemas.records.journal.runs import RunEnded as RunEnded
from duraton_schemas.records.journal.runs import RunPaused as RunPaused
from duraton_schemas.records.journal.runs import RunQuarantined as RunQuarantined
from duraton_schemas.records.journal.runs import RunQueued as RunQueued
from duraton_schemas.records.journal.runs import RunReady as RunReady
from duraton_schemas.records.journal.runs import RunResumed as RunResumed
from duraton_schemas.records.journal.runs import RunStarted as RunStarted
from duraton_schemas.records.journal.runs import RunSuspended as RunSuspended
from duraton_schemas.records.journal.runs import Trigger as Trigger
from duraton_schemas.records.journal.starts import BucketsRated as BucketsRated
from duraton_schemas.records.journal.starts import BufferFilled as BufferFilled
from duraton_schemas.records.journal.starts import BufferFlushed as BufferFlushed
from duraton_schemas.records.journal.starts import FiringHeld as FiringHeld
from duraton_schemas.records.journal.starts import FiringReleased as FiringReleased
from duraton_schemas.records.journal.starts import GateArmed as GateArmed
from duraton_schemas.records.journal.starts import KeysExpired as KeysExpired
from duraton_schemas.records.journal.starts import LaneMoved as LaneMoved
from duraton_schemas.records.journal.starts import LanesReviewed as LanesReviewed
from duraton_schemas.records.journal.starts import RunScopes as RunScopes
from duraton_schemas.records.journal.starts import RunsRescoped as RunsRescoped
from duraton_schemas.records.journal.starts import StartDeclined as StartDeclined
from duraton_schemas.records.journal.starts import StartJoined as StartJoined
from duraton_schemas.records.journal.starts import WindowFired as WindowFired
from duraton_schemas.records.journal.starts import WindowSlid as WindowSlid
from duraton_schemas.records.journal.steps import ChildKnown as ChildKnown
from duraton_schemas.records.journal.steps import StepCalled as StepCalled
from duraton_schemas.records.journal.steps import StepCompleted as StepCompleted
from duraton_schemas.records.journal.steps import StepDiscarded as StepDiscarded
from duraton_schemas.records.journal.steps import StepDue as StepDue
from duraton_schemas.records.journal.steps import StepFailed as StepFailed
from duraton_schemas.records.journal.steps import WaitAcknowledged as WaitAcknowledged
from duraton_schemas.records.journal.steps import WaitGone as WaitGone
from duraton_schemas.records.journal.steps import WaitStood as WaitStood
