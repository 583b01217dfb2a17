//! Copies of memory that do not use `rep movsb` on processors where it is slow.
//!
//! AMD's announce it as fast from Zen 3 on, and glibc copies more than a few KiB with it; at addresses that
//! do not suit it is several times slower than its vector loops (figures: docs/performance.md). glibc
//! reads its settings before `main`, so the process puts one into its environment and begins again. Called
//! by `main` before there is anything else.

use std::ffi::OsStr;

/// The variable that glibc reads.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// From a gibibyte on, which nothing here copies at one time.
const NO_REP_MOVSB: &str = "glibc.cpu.x86_rep_movsb_threshold=1073741824";

/// Begins the process again with the setting, where it helps and none is there. Returns where it does not,
/// and where that fails: copies are slower then.
pub fn tune() {
    if is_wanted(vendor(), std::env::var_os(TUNABLES).as_deref()) {
        begin_again();
    }
}

/// Another setting is a person's, or this one.
fn is_wanted(vendor: [u8; 12], tunables: Option<&OsStr>) -> bool {
    tunables.is_none() && vendor == *b"AuthenticAMD"
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
fn vendor() -> [u8; 12] {
    let leaf = std::arch::x86_64::__cpuid(0);
    let mut vendor = [0; 12];
    let registers = [leaf.ebx, leaf.edx, leaf.ecx];
    for (part, register) in vendor.chunks_mut(4).zip(registers) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    vendor
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
const fn vendor() -> [u8; 12] {
    [0; 12]
}

#[cfg(unix)]
fn begin_again() {
    use std::os::unix::process::CommandExt as _;
    let mut arguments = std::env::args_os();
    let mut again = std::process::Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    let _failed = again.args(arguments).env(TUNABLES, NO_REP_MOVSB).exec();
}

#[cfg(not(unix))]
fn begin_again() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_there_stays_and_no_other_processor_gets_one() {
        assert!(is_wanted(*b"AuthenticAMD", None));
        assert!(!is_wanted(*b"AuthenticAMD", Some(OsStr::new(NO_REP_MOVSB))));
        assert!(!is_wanted(*b"AuthenticAMD", Some(OsStr::new(""))));
        assert!(!is_wanted(*b"GenuineIntel", None));
    }
}
