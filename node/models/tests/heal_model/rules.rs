//! The rules of healing that can be taken out, one at a time.
//!
//! Production code has no switch. A model that leaves a rule out passes altered inputs to the production
//! function, overrules its decision, or skips the step that the rule asks for.

/// A rule taken out. `Nothing` is the design as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// Every rule is in.
    Nothing,
    /// A hint that says "committed" alone takes a row off the list.
    HintLeavesListed,
    /// One other volume's cursor takes a row off the list.
    AllSent,
    /// A row without a place on the list does not raise the horizon.
    Horizon,
    /// Adopted rows are not listed.
    AdoptedAreListed,
    /// A cursor is sent before it is durable: as far as the look that sends it goes.
    CursorDurableBeforeSent,
    /// A cursor becomes durable before the rows that its look pulled.
    CursorAfterRows,
    /// A cursor of another life counts.
    CursorOfThisLife,
    /// The peer reads D after its rows.
    DurableReadFirst,
    /// A row that was refused counts as passed.
    RefusedIsNotPassed,
    /// A higher own row passes, committed or not.
    HigherIsCommitted,
    /// An equal own row passes, committed or not.
    EqualIsCommitted,
    /// A look goes on over a restart of the volume that looks.
    RestartEndsLook,
    /// A volume in whose life the shard is not durable logs no want of introduced data.
    IntroducedIsWanted,
    /// A shard counts as durable although the life that acknowledged it is over.
    IntroducedByLife,
    /// Data that a value carries on is not wanted.
    CarriedIsWanted,
    /// Data of parts that a completed upload carries is not wanted where the object's row before was the one
    /// that the value was made from.
    CompletedIsWanted,
    /// Data of a pulled row is not wanted.
    PulledIsWanted,
    /// A want ends by an own row that is not known committed.
    WantEndsByCommitted,
    /// A want ends by another volume's row.
    WantEndsByOwn,
    /// Data is lost although not every volume votes.
    LostByAll,
    /// A volume with open wants is whole.
    WantsKeepFromWhole,
    /// Looks at fewer than P - 1 others suffice.
    EnoughPeers,
    /// A volume that recovered is whole before it walked its rows.
    WalkBeforeWhole,
    /// The same, for a volume that went back in time.
    RolledBackWalks,
    /// A recovered volume's cursors are its voters' sequences at the end of its scan.
    CursorsAtBeginning,
    /// A source's cut may lie before the directory was seen empty.
    CutAfterEmpty,
    /// A volume that went back in time votes as if it had not: no rule finds an unseen one.
    RollbackIsSeen,
}
