//! How rare words are, and words that are as rare.

use super::good_turing::pages_to_come;
use crate::random::Random;
use crate::set::is_han;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Whether a term is a pair of Chinese characters, and not a word.
pub(super) fn is_pair(term: &str) -> bool {
    term.starts_with(is_han)
}

/// Words, or pairs of characters, by how rare they are.
pub(super) struct Words {
    /// All words of the set in a row, the rarest first, each as long as the number of its pages: start and end of the
    /// words that are in as many pages as this one.
    places: HashMap<String, [f64; 2]>,
    /// The same row by the pages to come: the end of each word. Unseen words come first.
    to_come: Vec<(f64, Rc<str>)>,
    /// The end of the unseen words in `to_come`.
    new: f64,
    /// Words of queries that no page has, in order.
    asked: Vec<Rc<str>>,
    /// Lower bound of the number of unseen words.
    unseen: f64,
}

impl Words {
    /// Of the pages' terms those of one `kind`.
    pub(super) fn new(
        texts: &[BTreeSet<String>],
        asked: &BTreeSet<String>,
        kind: impl Fn(&str) -> bool,
    ) -> Self {
        let mut pages: BTreeMap<&str, usize> = BTreeMap::new();
        for term in texts.iter().flatten().filter(|term| kind(term)) {
            *pages.entry(term).or_default() += 1;
        }
        let asked = asked
            .iter()
            .filter(|term| kind(term) && !pages.contains_key(term.as_str()))
            .map(|term| Rc::from(term.as_str()))
            .collect();
        let mut numbers: BTreeMap<usize, f64> = BTreeMap::new();
        for one in pages.values() {
            *numbers.entry(*one).or_default() += 1.0;
        }
        let number = |pages| numbers.get(&pages).copied().unwrap_or_default();
        let rows = rows(&numbers);
        Self {
            to_come: to_come(&pages, number(1), &pages_to_come(&numbers)),
            new: number(1),
            asked,
            unseen: chao(texts.len() as f64, number(1), number(2)),
            places: (pages.iter())
                .map(|(term, pages)| ((*term).to_owned(), rows[pages]))
                .collect(),
        }
    }

    /// A word from the same place in the row by the pages to come. None for an unseen word.
    pub(super) fn alike(&self, term: &str, random: &mut Random) -> Option<&Rc<str>> {
        let [start, end] = self.places[term];
        let at = start + random.share() * (end - start);
        let word = self.to_come.partition_point(|(end, _)| *end <= at);
        let (_, word) = self.to_come.get(word).or(self.to_come.last())?;
        (at >= self.new).then_some(word)
    }

    /// An unseen word of the queries, as often as one is among all unseen words.
    pub(super) fn asked(&self, random: &mut Random) -> Option<&Rc<str>> {
        let is_asked = random.share() * self.unseen < self.asked.len() as f64;
        is_asked.then(|| random.one(&self.asked))
    }

    /// Number of different words.
    pub(super) fn len(&self) -> usize {
        self.to_come.len()
    }

    /// Whether a page or a query has it.
    pub(super) fn has(&self, term: &str) -> bool {
        let is_asked = || self.asked.binary_search_by(|asked| (**asked).cmp(term));
        self.places.contains_key(term) || is_asked().is_ok()
    }
}

/// Start and end of the words that are in so many pages.
fn rows(numbers: &BTreeMap<usize, f64>) -> BTreeMap<usize, [f64; 2]> {
    let mut end = 0.0;
    (numbers.iter())
        .map(|(pages, number)| {
            let start = end;
            end += *pages as f64 * number;
            (*pages, [start, end])
        })
        .collect()
}

fn to_come(
    pages: &BTreeMap<&str, usize>,
    new: f64,
    lengths: &BTreeMap<usize, f64>,
) -> Vec<(f64, Rc<str>)> {
    let mut ordered: Vec<_> = pages.iter().map(|(term, pages)| (pages, *term)).collect();
    ordered.sort();
    let mut end = new;
    (ordered.into_iter())
        .map(|(pages, term)| {
            end += lengths[pages];
            (end, Rc::from(term))
        })
        .collect()
}

/// Chao's estimate of the number of words that are in none of the pages, without bias.
fn chao(pages: f64, once: f64, twice: f64) -> f64 {
    (pages - 1.0) / pages * once * (once - 1.0) / (2.0 * (twice + 1.0))
}
