//! Verbs about the program: its version, its pages, and what completes its commands.

use std::fs;

use crate::fixture::Sherd;

#[test]
fn the_version_is_that_of_the_package() {
    let sherd = Sherd::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(sherd.ok(&["version"]), format!("sherd {version}\n"));
    let line: serde_json::Value = serde_json::from_str(&sherd.ok(&["version", "--json"])).expect("JSON");
    assert_eq!((&line["name"], &line["version"]), (&"sherd".into(), &version.into()));
}

#[test]
fn each_verb_has_a_page_and_is_completed() {
    let sherd = Sherd::new();
    sherd.ok(&["man", &sherd.text("man")]);
    let pages = sherd.files("man");
    let help = sherd.ok(&["--help"]);
    let verbs =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 20, "{help}");
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        assert!(pages.contains(&format!("sherd-{verb}.1")), "{verb}: {pages:?}");
        for shell in ["bash", "zsh", "fish"] {
            assert!(sherd.ok(&["completions", shell]).contains(verb), "{verb}: {shell}");
        }
    }
    let page = fs::read_to_string(sherd.path("man/sherd-cp.1")).expect("a page");
    assert!(page.starts_with(".ie") && page.contains("\\-\\-recursive"), "{page}");
    assert!(pages.contains(&"sherd.1".to_owned()) && sherd.ok(&["man"]).contains("sherd\\-cp(1)"));
}
