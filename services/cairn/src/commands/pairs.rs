//! Flags that give values to names, such as `--meta source=mail`. Each name is given once.

use crate::error::CliError;
use cairn_rpc::text::clip;
use std::collections::BTreeMap;

/// Most bytes of a name in an error.
const SHOWN: usize = 128;

/// The name and the value of a flag.
///
/// # Errors
/// `allowed`, if the text has no name or no `=`.
pub(super) fn pair(text: &str, allowed: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(allowed.to_owned()),
    }
}

/// The values by name.
///
/// # Errors
/// A name is there twice.
pub(super) fn by_name(
    flag: &str,
    given: Vec<(String, String)>,
) -> Result<BTreeMap<String, String>, CliError> {
    let mut values = BTreeMap::new();
    for (name, value) in given {
        if values.insert(name.clone(), value).is_some() {
            let name = clip(&name, SHOWN);
            let error = CliError::usage(format!("{flag} {name} is given twice"));
            return Err(error.hint("allowed: each name once"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_before_the_first_equals_sign() {
        let owned = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(pair("a=b=c", ""), owned("a", "b=c"));
        assert_eq!(pair("a=", ""), owned("a", ""));
        for wrong in ["a", "=b", ""] {
            assert_eq!(pair(wrong, "a=b"), Err("a=b".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn each_name_is_given_once() {
        let pairs = |names: [&str; 2]| names.map(|name| (name.to_owned(), "1".to_owned()));
        let values = by_name("--meta", pairs(["b", "a"]).into());
        assert_eq!(values, Ok(pairs(["a", "b"]).into()));
        let error = by_name("--meta", pairs(["a", "a"]).into()).unwrap_err();
        assert_eq!(error.message, "--meta a is given twice");
    }
}
