//! Made-up words, for subjects that the set does not have.

use super::words::Words;
use crate::random::Random;

/// A wiki of thousands of pages has some hundred times as many words as one of thirty, most of them in few pages.
const MORE: f64 = 100.0;

/// Rank of a word that is rarer than so many others. By Zipf's law the frequency falls as the rank rises, so the
/// logarithm of the rank is spread evenly.
fn rank(others: usize, random: &mut Random) -> usize {
    (others as f64 * MORE.powf(random.share())) as usize
}

/// A word that can be pronounced.
pub(super) fn word(known: &Words, random: &mut Random) -> String {
    const STARTS: [&str; 16] = [
        "b", "ch", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z",
    ];
    const VOWELS: [&str; 5] = ["a", "i", "o", "u", "au"];
    loop {
        let mut rest = rank(known.len(), random);
        let mut word = String::new();
        for _ in 0..3 {
            word += STARTS[rest % STARTS.len()];
            rest /= STARTS.len();
            word += VOWELS[rest % VOWELS.len()];
            rest /= VOWELS.len();
        }
        if !known.has(&word) {
            return word;
        }
    }
}

/// Two characters, each as often as in the set's text.
pub(super) fn pair(known: &Words, characters: &[char], random: &mut Random) -> String {
    loop {
        let rank = rank(known.len(), random);
        let mut of_rank = Random::new(u64::try_from(rank).unwrap());
        let pair: String = (0..2).map(|_| of_rank.one(characters)).collect();
        if !known.has(&pair) {
            return pair;
        }
    }
}
