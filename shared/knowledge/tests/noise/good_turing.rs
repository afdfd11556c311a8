//! In how many pages to come a word is.

use std::collections::BTreeMap;

/// Simple Good–Turing (Gale and Sampson, 1995), for as many pages to come as there are pages.
///
/// `words` has the number of words for each number of pages. The result has the estimate for one of those words. The
/// estimates leave the mass of the words that are in one page to unseen words.
pub(super) fn pages_to_come(words: &BTreeMap<usize, f64>) -> BTreeMap<usize, f64> {
    let slope = slope(&logarithms(words));
    let mut rough = true;
    let mut estimates = BTreeMap::new();
    for (&pages, &number) in words {
        let count = pages as f64;
        let next = words.get(&(pages + 1)).copied().unwrap_or_default();
        let turing = (count + 1.0) * next / number;
        let line = count * (1.0 + 1.0 / count).powf(slope + 1.0);
        let deviation = (count + 1.0) / number * (next * (1.0 + next / number)).sqrt();
        rough = rough && next > 0.0 && (turing - line).abs() > 1.65 * deviation;
        estimates.insert(pages, if rough { turing } else { line });
    }
    let mass: f64 = words
        .iter()
        .map(|(pages, number)| *pages as f64 * number)
        .sum();
    let seen: f64 = words
        .iter()
        .map(|(pages, number)| estimates[pages] * number)
        .sum();
    let scale = (mass - words.get(&1).copied().unwrap_or_default()) / seen;
    estimates
        .values_mut()
        .for_each(|estimate| *estimate *= scale);
    estimates
}

/// Logarithms of the numbers of pages and of words. Where numbers of pages are missing, words are spread over the gap.
fn logarithms(words: &BTreeMap<usize, f64>) -> Vec<(f64, f64)> {
    let pages: Vec<f64> = words.keys().map(|pages| *pages as f64).collect();
    (words.values().enumerate())
        .map(|(at, number)| {
            let before = if at == 0 { 0.0 } else { pages[at - 1] };
            let after = pages
                .get(at + 1)
                .copied()
                .unwrap_or(2.0 * pages[at] - before);
            (pages[at].ln(), (2.0 * number / (after - before)).ln())
        })
        .collect()
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let number = points.len() as f64;
    let middle = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / number;
    let (x, y) = (middle(|point| point.0), middle(|point| point.1));
    let both: f64 = points
        .iter()
        .map(|point| (point.0 - x) * (point.1 - y))
        .sum();
    both / points
        .iter()
        .map(|point| (point.0 - x).powi(2))
        .sum::<f64>()
}
