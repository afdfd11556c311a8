//! Runs of a script without spaces: every character, and every two that stand together.

use super::Class;
use crate::stop_words::{chinese_at, is_small};

/// Takes the run that the characters begin with. Returns its length, at least 1.
pub(super) fn take(characters: &[char], take: &mut impl FnMut(&str)) -> usize {
    let length = (characters.iter())
        .take_while(|&&one| Class::of(one) == Class::Spaceless)
        .count();
    let run = &characters[..length];
    let (mut start, mut at) = (0, 0);
    while at < length {
        match chinese_at(&run[at..]) {
            0 => at += 1,
            stop_word => {
                between(&run[start..at], take);
                at += stop_word;
                start = at;
            }
        }
    }
    between(&run[start..], take);
    length
}

/// Characters between stop words.
fn between(run: &[char], take: &mut impl FnMut(&str)) {
    let mut term = String::with_capacity(8);
    for (at, one) in run.iter().enumerate() {
        if !is_small(*one) {
            term.clear();
            term.push(*one);
            take(&term);
        }
        if let Some(next) = run.get(at + 1) {
            term.clear();
            term.extend([one, next]);
            take(&term);
        }
    }
}
