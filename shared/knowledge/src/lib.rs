//! Finds pages and messages by the words of a query. Knows no store and no session, and does no I/O.
//!
//! An [`Index`] has entries with a title, a text and tags. A search compares terms: stems of words, parts of
//! identifiers, and pairs of characters in scripts without spaces. A [`Scorer`] turns the terms that a query and an
//! entry share into a score from 0 to 1. Texts are not kept: the caller reads them for the hits, and [`excerpt()`]
//! cuts them to the lines that fit best.

mod excerpt;
mod index;
mod scorer;
mod stop_words;
mod terms;

pub use excerpt::excerpt;
pub use index::{Entry, Hit, Index, Query};
pub use scorer::Scorer;
pub use terms::has_terms;
