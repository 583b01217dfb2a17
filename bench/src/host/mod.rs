//! The machine that measures and is measured: what it is, and what its device and processor can do.

pub mod proc;

/// This build or this combination must not be measured: the program ends with code 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A build without optimisation measures the compiler's settings.
    #[error(
        "this is a debug build, which measures nothing of use: build with --release, or run for a --moment"
    )]
    DebugBuild,
}

/// Refuses to measure with a build without optimisation, except for a `moment`, whose figures nobody
/// keeps.
///
/// # Errors
/// It is one.
pub fn refuse_debug_build(moment: bool) -> Result<(), Refusal> {
    if cfg!(debug_assertions) && !moment { Err(Refusal::DebugBuild) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_build_is_refused_unless_its_figures_are_thrown_away() {
        // Tests are debug builds, unless someone runs them with optimisation.
        let expected = if cfg!(debug_assertions) { Err(Refusal::DebugBuild) } else { Ok(()) };
        assert_eq!(refuse_debug_build(false), expected);
        assert_eq!(refuse_debug_build(true), Ok(()));
    }
}
