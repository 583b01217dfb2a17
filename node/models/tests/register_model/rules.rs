//! The rules of the design that can be taken out, one at a time.
//!
//! Production code has no switch. A model that leaves a rule out passes altered inputs to the
//! production function, overrules its decision, or skips the step that the rule asks for.

/// A rule taken out. `QueueEmpty` is the design as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// Every rule is in.
    Nothing,
    /// Accept goes out after P promises.
    APromises,
    /// A tombstone resets count and ids.
    TombstoneHistory,
    /// Finding its own change id, a writer tries again.
    OwnIdIsSuccess,
    /// Finding its own change id, a writer has succeeded without settling the found value.
    SettleOwn,
    /// A failed condition is answered although the value that failed it may not be committed.
    SettleFailed,
    /// An absent id counts as "not made", however many changes there were.
    RingOverflow,
    /// A batch forgets its tries by a value above them that may not be committed.
    ForgottenCommitted,
    /// A batch forgets its tries by a committed value below one of them.
    ForgottenAbove,
    /// Members of a batch are answered as its latest try judged them, whichever was found.
    TryNumbers,
    /// Writers join a batch after its first accept.
    BatchClosed,
    /// The decision of a try is proposed again after a conflict.
    DecidedAnew,
    /// Refused members are answered when the accept is sent.
    AnswerAfterCommit,
    /// Data of refused and overwritten members is given back when the accept is sent.
    GiveBackAfterCommit,
    /// A member that leaves after an accept gets the answer that nothing changed.
    LeavingIsUnknown,
    /// A member that left is still decided and proposed.
    LeftIsLeftOut,
    /// Data of a member that leaves is given back at once.
    LeftDataWaits,
    /// A batch whose outcome is unknown gives all its data back.
    UnknownKeepsData,
    /// A refusal is sent at once although the value that caused it may not be committed.
    RefusedOnCertain,
    /// A refusal is sent at once although an accept of the batch is under way.
    RefusedWithoutAccept,
    /// A refusal is sent at once to a member that came after the prepare was sent.
    RefusedCameBefore,
    /// A refusal on an empty register is sent without writing a tombstone.
    RefusedTombstone,
    /// A condition is judged without looking whether the call has made its change already.
    CallsLookedUp,
    /// The changes of members before it in the batch are ignored too.
    DraftedCalls,
    /// A sending of a call that has made its change is answered although that may not be committed.
    RepeatedOnCertain,
    /// A tombstone keeps no tokens of calls.
    TombstoneCalls,
    /// Tokens are kept by their number alone.
    KeptByAge,
    /// Of the members of a batch only the last one's token goes into the value.
    EachBringsItsOwn,
    /// A value that a read returned before a prepare refuses members although an accept of the batch is under
    /// way.
    LookedWithoutAccept,
    /// A value that a read saw before a prepare refuses members although it may not be committed.
    LookedOnCertain,
    /// A value that a read returned before a prepare refuses members that came after the read was sent.
    LookedCameBefore,
    /// The changes are counted from the latest accept's count.
    LowestNotLatest,
    /// The changes are counted from the first accept's count.
    LowestNotFirst,
    /// Floors do not make an outcome unknown.
    FloorsMakeUnknown,
    /// A read compares values.
    BallotsNotValues,
    /// A row that may have been dropped is used as it is.
    AskOnceMore,
    /// A row that cannot be read counts as nothing.
    UnreadableIsNoVote,
    /// The promise of a volume whose row cannot be read is one of the A.
    UnreadablePromise,
    /// A restarted volume takes any ballot.
    RestartBound,
    /// A promise is answered before its bound is durable.
    BoundBeforePromise,
    /// Any writer that commits a value without the data releases it.
    MadeFromNaming,
    /// A writer releases after any committed value that lacks its data.
    WriterHigherBallot,
    /// A writer that released proposes again.
    WriterStops,
    /// A sweep begins when A volumes have the data floor.
    SweepAll,
    /// A sweep needs no data floors.
    SweepFloors,
    /// A sweep judges a key at which it found nothing without writing a tombstone row.
    SweepTombstone,
    /// A sweep judges by a prepare alone.
    SweepSettles,
    /// A volumes confirm a drop.
    DropAll,
    /// A drop raises no floors.
    DropFloors,
    /// A volume with an older row confirms a drop.
    DropThisTombstone,
    /// A tombstone is dropped that no volume holds as committed.
    DropKnownCommitted,
    /// A drop erases any row that is there.
    DropIfStill,
    /// A drop forgets the key's promise.
    DropKeepsPromise,
    /// A floor is set to what was asked.
    FloorsNeverFall,
    /// A volume without its state takes writes.
    LostTakesNoWrites,
    /// A volume that took its guarantees votes.
    RefillingDoesNotVote,
    /// Voters report before they record the new life.
    RecordThenReport,
    /// Replies of older lives count.
    OldLivesDiscarded,
    /// Voters are scanned without F as their floor.
    FloorBeforeScan,
    /// A row at or below its volume's floor counts as accepted for reads and prepares.
    CopiesAreNoVotes,
    /// An accept of a ballot at or below the floor is answered as stored where its row is there.
    CopiesAreNoAccepts,
    /// `FloorBeforeScan`, `CopiesAreNoVotes` and `CopiesAreNoAccepts` together: each covers for another on
    /// fewer than five volumes.
    FloorAndCopies,
    /// The recovering volume does not take F as its floor.
    TakeFloor,
    /// The adopted rows come from one voter.
    AdoptFromAll,
    /// The recovering volume does not adopt the lives that its voters know.
    AdoptLives,
    /// The recovering volume does not adopt data floors.
    AdoptDataFloors,
    /// A ballot is refused that is too far ahead of the clock or the key's row.
    RowsDoNotCount,
    /// A ballot is refused that is too far ahead of the clock or the durable bound.
    BoundsDoNotCount,
    /// No ballot is refused as too far ahead.
    FarAheadIsRefused,
    /// A volume forgets what its clock said before it was set back.
    OwnReadingCounts,
    /// No bound more than four minutes ahead is followed.
    StepsAreFollowed,
    /// Of bounds more than four minutes ahead the highest is followed.
    LowestFirst,
    /// The highest bound is followed, from any volume.
    FollowFourMinutes,
    /// A gateway goes on above its last ballot when that is refused as too far ahead.
    BeginAnew,
    /// Voters report the bound that their clock extends.
    PromisesNotBound,
    /// Voters of a recovery may be as far ahead as they are.
    FarAheadIsNoVoter,
    /// A data floor is raised as far as it is asked to be.
    DataFloorsAreJudged,
    /// Data is born at the gateway's clock.
    BirthsAboveFloors,
    /// A pull breaks a promise of the key.
    PullKeepsPromise,
    /// A pull replaces a newer row.
    PullKeepsNewer,
    /// A pull is not refused below the restart bound.
    PullAboveBound,
    /// A pull is not refused below the floor.
    PullAboveFloor,
    /// A volume pulls in every standing.
    PullByStanding,
    /// A pulled row is stored as committed.
    PulledFlagIsTheSources,
}

impl Without {
    /// Whether voters are scanned without F as their floor.
    pub(crate) fn scans_before_floor(self) -> bool {
        matches!(self, Self::FloorBeforeScan | Self::FloorAndCopies)
    }

    /// Whether copies count as votes.
    pub(crate) fn copies_vote(self) -> bool {
        matches!(self, Self::CopiesAreNoVotes | Self::FloorAndCopies)
    }

    /// Whether copies count as accepts.
    pub(crate) fn copies_accept(self) -> bool {
        matches!(self, Self::CopiesAreNoAccepts | Self::FloorAndCopies)
    }
}
