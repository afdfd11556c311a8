//! How the terms that a query and an entry share become a score.

/// Repetitions of a term count less the lower this is.
///
/// Higher than the usual 1.2: with that, one word in a title already has nearly the highest weight.
const K1: f64 = 5.0;
/// How much a long entry's terms count less than a short one's, from 0 to 1.
const B: f64 = 0.75;

/// How hits are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scorer {
    /// Okapi BM25, between 0 and 1: an average entry that has each term of the query once has 0.5. Rare terms count more.
    #[default]
    Bm25,
    /// Dice's coefficient of the two sets of terms. Every term counts the same.
    Dice,
}

impl Scorer {
    /// Every scorer, in the order of the documentation.
    pub const ALL: [Self; 2] = [Self::Bm25, Self::Dice];
}

/// A term of a query and how many entries have it.
pub(crate) struct Asked {
    /// How much a term of its kind counts.
    pub(crate) weight: f64,
    /// Number of entries that have it.
    pub(crate) entries: usize,
}

/// An entry as scorers see it.
pub(crate) struct Scored {
    /// Number of its terms, each counted as often as it stands there and by its field.
    pub(crate) length: u32,
    /// Number of different terms.
    pub(crate) distinct: usize,
}

/// A query against an index. An entry's score is the sum of `gain` over the terms that it shares, through `score`.
pub(crate) struct Scoring {
    scorer: Scorer,
    average: f64,
    rarity: Vec<f64>,
    /// The sum of an entry of average length that has each term of the query once.
    once: f64,
}

impl Scoring {
    /// `length` is the sum over the `entries` of the index.
    pub(crate) fn new(scorer: Scorer, asked: &[Asked], entries: usize, length: u64) -> Self {
        let rarity: Vec<f64> = (asked.iter())
            .map(|term| term.weight * rarity(entries, term.entries))
            .collect();
        Self {
            scorer,
            average: length as f64 / entries.max(1) as f64,
            once: rarity.iter().sum(),
            rarity,
        }
    }

    /// Part of an entry's sum: it has the term of the query with this number `count` times.
    pub(crate) fn gain(&self, term: usize, count: u8, entry: &Scored) -> f64 {
        match self.scorer {
            Scorer::Bm25 => {
                let count = f64::from(count);
                let long = 1.0 - B + B * f64::from(entry.length) / self.average;
                self.rarity[term] * count * (K1 + 1.0) / (count + K1 * long)
            }
            Scorer::Dice => 2.0,
        }
    }

    /// The score for a sum, above 0 and at most 1.
    pub(crate) fn score(&self, sum: f64, entry: &Scored) -> f64 {
        match self.scorer {
            Scorer::Bm25 => sum / (sum + self.once),
            Scorer::Dice => sum / (self.rarity.len() + entry.distinct) as f64,
        }
    }
}

/// Above 0 also for a term that every entry has.
fn rarity(entries: usize, with_term: usize) -> f64 {
    let without = entries.saturating_sub(with_term) as f64;
    (1.0 + (without + 0.5) / (with_term as f64 + 0.5)).ln()
}
