//! Results that a model reads in pieces.

use crate::event::{Blob, ResultHandle};
use crate::key::{digest, hex};
use crate::limits::MAX_HANDLES;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The results of a session that are longer than a model gets at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handles {
    /// How many there have been.
    made: u32,
    /// The newest of them, oldest first.
    kept: VecDeque<ResultHandle>,
}

impl Handles {
    /// The result of that name, unless too many have come after it. Its digits may be left out.
    pub fn get(&self, handle: &str) -> Option<&ResultHandle> {
        let has_name = |kept: &&ResultHandle| {
            kept.handle == handle || without_digits(&kept.handle) == Some(handle)
        };
        self.kept.iter().rev().find(has_name)
    }

    /// The names that can be used, oldest first.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.kept.iter().map(|kept| kept.handle.as_str())
    }

    /// The name of the next one, whose text has these parts, such as `result-3-9f86`.
    ///
    /// A conversation may come from another session, with the names of results that are there. The digits
    /// part them from the results of this session, so that no name stands for another text.
    pub(crate) fn next_name(&self, blobs: &[Blob]) -> String {
        let number = self.made + 1;
        if blobs.is_empty() {
            return format!("result-{number}");
        }
        let digests: Vec<&[u8]> = blobs.iter().map(|blob| blob.digest.as_bytes()).collect();
        format!("result-{number}-{}", hex(&digest(&digests)[..2]))
    }

    /// A result has a name, by which nobody reads it before it is offered.
    pub(crate) fn count(&mut self) {
        self.made += 1;
    }

    pub(crate) fn keep(&mut self, whole: &ResultHandle) {
        self.count();
        self.offer(whole);
    }

    /// A result that was counted can be read from now on.
    pub(crate) fn offer(&mut self, whole: &ResultHandle) {
        self.kept.push_back(whole.clone());
        if self.kept.len() > MAX_HANDLES {
            self.kept.pop_front();
        }
    }
}

/// `result-3` of `result-3-9f86`.
fn without_digits(name: &str) -> Option<&str> {
    let (short, _) = name.rsplit_once('-')?;
    short.contains('-').then_some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(handles: &mut Handles, digest: &str) -> String {
        let blobs = vec![Blob {
            digest: digest.to_owned(),
            size: 1,
        }];
        let handle = handles.next_name(&blobs);
        handles.keep(&ResultHandle {
            handle: handle.clone(),
            blobs,
            ..ResultHandle::default()
        });
        handle
    }

    #[test]
    fn a_name_of_another_session_is_unknown() {
        let (mut here, mut there) = (Handles::default(), Handles::default());
        let own = keep(&mut here, "9f86d081");
        let other = keep(&mut there, "884c7d65");
        let digits = own.strip_prefix("result-1-").unwrap();
        assert!(
            digits.len() == 4 && other.starts_with("result-1-"),
            "{own} {other}"
        );
        assert!(here.get(&own).is_some() && here.get(&other).is_none());
        assert_eq!(Handles::default().next_name(&[]), "result-1");
    }

    #[test]
    fn a_name_is_found_with_its_digits_and_without() {
        let mut handles = Handles::default();
        keep(&mut handles, "9f86d081");
        let second = keep(&mut handles, "884c7d65");
        for name in ["result-2", second.as_str()] {
            let found = handles.get(name).map(|kept| kept.handle.as_str());
            assert_eq!(found, Some(second.as_str()), "{name}");
        }
        for name in ["result", "result-", "result-3", "result-2-", ""] {
            assert!(handles.get(name).is_none(), "{name}");
        }
        // A name of before there were digits.
        handles.keep(&ResultHandle {
            handle: "result-3".to_owned(),
            ..ResultHandle::default()
        });
        assert!(handles.get("result-3").is_some() && handles.get("result").is_none());
    }
}
