//! Commands that grant rights, without a terminal.

use cairn_testkit::{Output, Site};

/// Runs a command that wants the digest of what it grants, and runs it again with the digest that it names.
pub fn with_digest(site: &Site, arguments: &[&str]) -> Output {
    let refused = site.run(arguments);
    assert_eq!(refused.code, Some(2), "{arguments:?}: {refused:?}");
    let digest = digest_of(&refused);
    site.run(&[arguments, &["--digest", &digest, "--yes"]].concat())
}

/// The digest that a refusal names.
pub fn digest_of(refused: &Output) -> String {
    let (_, rest) = refused.err.split_once("--digest ").expect("its digest");
    rest.split_whitespace().next().expect("a word").to_owned()
}
