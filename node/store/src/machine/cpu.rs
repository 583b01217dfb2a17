//! The processor that the build needs: on x86, x86-64-v3, which is Intel since Haswell (2013) and AMD
//! since Excavator (2015); on Arm, any of 64 bits.
//!
//! The erasure code is compiled for that level. Asked once at start, because the other way to
//! learn it is an illegal instruction in the middle of a request.

#[cfg(target_arch = "x86_64")]
const NEEDED: &str = "x86-64-v3 (Intel Haswell, AMD Excavator or later)";
#[cfg(not(target_arch = "x86_64"))]
const NEEDED: &str = "64-bit Arm with NEON (Armv8-A or later)";

/// The processor lacks features that the build needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this processor lacks {}: sherd-node needs {NEEDED}; a virtual machine must pass these features through",
    missing.join(", ")
)]
pub struct MissingFeatures {
    /// Names as in /proc/cpuinfo.
    pub missing: Vec<&'static str>,
}

/// Checks the processor that this process runs on.
///
/// # Errors
/// [`MissingFeatures`] names what is missing.
pub fn check() -> Result<(), MissingFeatures> {
    judge(&features())
}

fn judge(features: &[(&'static str, bool)]) -> Result<(), MissingFeatures> {
    let missing: Vec<_> = features.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
    if missing.is_empty() { Ok(()) } else { Err(MissingFeatures { missing }) }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<(&'static str, bool)> {
    vec![
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi1", is_x86_feature_detected!("bmi1")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("fma", is_x86_feature_detected!("fma")),
        ("lzcnt", is_x86_feature_detected!("lzcnt")),
        ("movbe", is_x86_feature_detected!("movbe")),
    ]
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<(&'static str, bool)> {
    vec![("asimd", std::arch::is_aarch64_feature_detected!("neon"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_with_everything_passes() {
        assert_eq!(judge(&[("avx2", true), ("fma", true)]), Ok(()));
    }

    #[test]
    fn the_message_names_exactly_what_is_missing() {
        let error = judge(&[("avx2", false), ("fma", true), ("bmi2", false)]).expect_err("two are missing");
        assert_eq!(error.missing, ["avx2", "bmi2"]);
        let message = error.to_string();
        assert!(message.starts_with("this processor lacks avx2, bmi2: sherd-node needs "), "{message}");
        assert!(message.contains(NEEDED), "{message}");
    }
}
