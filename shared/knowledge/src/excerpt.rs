//! The lines of a text that fit a query best.

mod pieces;

use crate::terms;
use pieces::pieces;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Stands where text is left out.
const GAP: &str = "…";

/// A shorter excerpt is the beginning of the text: the gaps around a place would leave no room for it.
const FEWEST_BYTES: usize = 32;

/// An excerpt begins with at most so many places of a text, and continues with the lines around them.
const MOST_PLACES: usize = 32;

/// The whole text if it has at most `most_bytes`, else its lines that fit the query best and the lines around them,
/// with "…" where text is left out. Long lines count as several. If nothing fits, the beginning of the text.
pub fn excerpt(text: &str, query: &str, most_bytes: usize) -> String {
    if text.len() <= most_bytes {
        return text.to_owned();
    }
    if most_bytes < FEWEST_BYTES {
        return beginning(text, most_bytes);
    }
    let pieces = pieces(text, most_bytes / 4);
    let mut chosen = Chosen::new(&pieces, most_bytes);
    let places = best(&pieces, query)
        .into_iter()
        .filter(|place| chosen.add(*place))
        .collect();
    chosen.widen(places);
    if chosen.numbers.is_empty() {
        return beginning(text, most_bytes);
    }
    chosen.text()
}

fn beginning(text: &str, most_bytes: usize) -> String {
    match most_bytes.checked_sub(GAP.len()) {
        Some(room) => [&text[..text.floor_char_boundary(room)], GAP].concat(),
        None => String::new(),
    }
}

/// Numbers of pieces that have terms of the query, so that each adds as much as possible to those before it. Terms
/// that few pieces have count more.
fn best(pieces: &[&str], query: &str) -> Vec<usize> {
    let terms = terms::distinct(query);
    let numbers: HashMap<&str, usize> = terms.iter().map(String::as_str).zip(0..).collect();
    let mut fitting: Vec<(usize, BTreeSet<usize>)> = Vec::new();
    let mut with_term = vec![0_usize; terms.len()];
    for (number, piece) in pieces.iter().enumerate() {
        let mut has = BTreeSet::new();
        terms::each(piece, |term| has.extend(numbers.get(term)));
        if !has.is_empty() {
            has.iter().for_each(|term| with_term[*term] += 1);
            fitting.push((number, has));
        }
    }
    let mut worth: Vec<f64> = (terms.iter().zip(with_term))
        .map(|(term, with)| terms::weight(term) * (1.0 + pieces.len() as f64 / with as f64).ln())
        .collect();
    let mut best = Vec::new();
    while best.len() < MOST_PLACES {
        let gain = |has: &BTreeSet<usize>| has.iter().map(|term| worth[*term]).sum::<f64>();
        // Of equal gains the first counts.
        let next = fitting
            .iter()
            .rev()
            .max_by(|a, b| gain(&a.1).total_cmp(&gain(&b.1)));
        let Some((number, has)) = next.filter(|(_, has)| gain(has) > 0.0) else {
            break;
        };
        best.push(*number);
        has.iter().for_each(|term| worth[*term] = 0.0);
    }
    best
}

/// The pieces that an excerpt has.
struct Chosen<'a> {
    pieces: &'a [&'a str],
    numbers: BTreeSet<usize>,
    /// Room that is left, if there is a gap before each block of pieces and after the last.
    room: usize,
}

impl<'a> Chosen<'a> {
    /// Bytes of a gap and of the end of its line.
    const GAP_BYTES: usize = GAP.len() + 1;

    fn new(pieces: &'a [&'a str], most_bytes: usize) -> Self {
        let room = most_bytes.saturating_sub(Self::GAP_BYTES);
        Self {
            pieces,
            numbers: BTreeSet::new(),
            room,
        }
    }

    /// Adds a piece if it fits and is not there.
    fn add(&mut self, number: usize) -> bool {
        let Some(piece) = self.pieces.get(number) else {
            return false;
        };
        let there = |number: Option<usize>| number.is_some_and(|one| self.numbers.contains(&one));
        let neighbours = [number.checked_sub(1), number.checked_add(1)];
        let gaps_before = neighbours.into_iter().filter(|one| there(*one)).count();
        let needed = piece.len() + Self::GAP_BYTES;
        let room = self.room + gaps_before * Self::GAP_BYTES;
        if there(Some(number)) || needed > room {
            return false;
        }
        self.room = room - needed;
        self.numbers.insert(number)
    }

    /// Adds the pieces around those of the queue while there is room, the nearest first.
    fn widen(&mut self, mut queue: VecDeque<usize>) {
        while let Some(number) = queue.pop_front() {
            for neighbour in [number.checked_add(1), number.checked_sub(1)]
                .into_iter()
                .flatten()
            {
                if self.add(neighbour) {
                    queue.push_back(neighbour);
                }
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut next = 0;
        for number in &self.numbers {
            if *number > next {
                text.push_str(GAP);
                if self.pieces[number - 1].ends_with('\n') {
                    text.push('\n');
                }
            }
            text.push_str(self.pieces[*number]);
            next = number + 1;
        }
        if next < self.pieces.len() {
            text.push_str(GAP);
        }
        text
    }
}

#[cfg(test)]
mod tests;
