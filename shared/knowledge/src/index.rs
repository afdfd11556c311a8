//! The index: which entries have which terms.

mod entries;
mod postings;
mod slab;
mod vocabulary;

use crate::scorer::{Asked, Scorer, Scoring};
use crate::terms;
use entries::{Entries, Stored};
use postings::Postings;
use std::cmp::Ordering;
use std::collections::HashMap;
use vocabulary::Vocabulary;

/// How often a term counts that stands once in the title, in a tag, in the text.
const TITLE: u32 = 3;
const TAG: u32 = 2;
const TEXT: u32 = 1;

/// What is indexed. The index keeps its terms and tags, not its text.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its terms count most.
    pub title: &'a str,
    /// Of any length and in any language.
    pub text: &'a str,
    /// Their terms count more than those of the text.
    pub tags: &'a [String],
}

/// A search.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// A query without a term, such as one of stop words, finds nothing.
    pub text: &'a str,
    /// A hit has all of these tags. Case does not matter.
    pub tags: &'a [String],
    /// Maximum number of hits.
    pub max: usize,
    /// The least score of a hit.
    pub min_score: f64,
    /// How hits are scored.
    pub scorer: Scorer,
}

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Id of the entry.
    pub id: String,
    /// How well it fits, above 0 and at most 1.
    pub score: f64,
}

/// Entries by their terms. What a search finds depends on the entries, not on the order in which they came.
#[derive(Debug, Default)]
pub struct Index {
    entries: Entries,
    vocabulary: Vocabulary,
}

impl Index {
    /// An index without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry, in place of one with the same id. `version` orders hits of equal scores.
    pub fn put(&mut self, id: &str, version: u64, entry: Entry<'_>) {
        self.remove(id);
        let counts = counts(entry);
        let mut added = Stored {
            id: id.into(),
            version,
            length: counts
                .values()
                .fold(0, |sum, count| sum.saturating_add(*count)),
            terms: Box::default(),
            tags: entry
                .tags
                .iter()
                .map(|tag| terms::fold(tag).into())
                .collect(),
        };
        let slot = self.entries.next_slot();
        added.terms = counts
            .iter()
            .map(|(term, count)| self.vocabulary.add(term, slot, *count))
            .collect();
        self.entries.insert(added);
    }

    /// Removes an entry. Returns whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some((slot, stored)) = self.entries.remove(id) else {
            return false;
        };
        for term in &stored.terms {
            self.vocabulary.remove(*term, slot);
        }
        true
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Estimate of the memory that the entries take.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.vocabulary.bytes()
    }

    /// The hits, best first. Of equal scores the newer version comes first, then the lesser id.
    pub fn search(&self, query: &Query<'_>) -> Vec<Hit> {
        let mut found = self.scored(query);
        if query.max == 0 {
            return Vec::new();
        }
        if found.len() > query.max {
            found.select_nth_unstable_by(query.max - 1, better);
            found.truncate(query.max);
        }
        found.sort_unstable_by(better);
        (found.into_iter())
            .map(|(score, entry)| Hit {
                id: entry.id.to_string(),
                score,
            })
            .collect()
    }

    /// Every entry that the query's tags and least score allow.
    fn scored(&self, query: &Query<'_>) -> Vec<(f64, &Stored)> {
        let terms = terms::distinct(query.text);
        let postings: Vec<_> = terms
            .iter()
            .map(|term| self.vocabulary.postings(term))
            .collect();
        let asked: Vec<_> = (terms.iter().zip(&postings))
            .map(|(term, postings)| Asked {
                weight: terms::weight(term),
                entries: postings.len(),
            })
            .collect();
        let scoring = Scoring::new(query.scorer, &asked, self.len(), self.entries.length());
        let tags: Vec<_> = query.tags.iter().map(|tag| terms::fold(tag)).collect();
        (self.sums(&scoring, &postings).into_iter())
            .map(|(sum, entry)| (scoring.score(sum, &entry.scored()), entry))
            .filter(|(score, _)| *score > 0.0 && *score >= query.min_score)
            .filter(|(_, entry)| tags.iter().all(|tag| entry.has_tag(tag)))
            .collect()
    }

    /// The entries that have a term of the query, each with the sum of its gains.
    fn sums(&self, scoring: &Scoring, postings: &[&Postings]) -> Vec<(f64, &Stored)> {
        let mut sums = vec![0.0; self.entries.slots()];
        for (term, postings) in postings.iter().enumerate() {
            for (slot, count) in postings.iter() {
                if let Some(entry) = self.entries.get(slot) {
                    sums[slot as usize] += scoring.gain(term, count, &entry.scored());
                }
            }
        }
        (sums.into_iter().zip(self.entries.by_slot()))
            .filter_map(|(sum, entry)| entry.filter(|_| sum > 0.0).map(|entry| (sum, entry)))
            .collect()
    }
}

fn better(a: &(f64, &Stored), b: &(f64, &Stored)) -> Ordering {
    (b.0.total_cmp(&a.0))
        .then_with(|| b.1.version.cmp(&a.1.version))
        .then_with(|| a.1.id.cmp(&b.1.id))
}

/// How often each term counts.
fn counts(entry: Entry<'_>) -> HashMap<String, u32> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    let mut add = |text: &str, times: u32| {
        terms::each(text, |term| match counts.get_mut(term) {
            Some(count) => *count = count.saturating_add(times),
            None => drop(counts.insert(term.to_owned(), times)),
        });
    };
    add(entry.title, TITLE);
    entry.tags.iter().for_each(|tag| add(tag, TAG));
    add(entry.text, TEXT);
    counts
}

#[cfg(test)]
mod tests;
