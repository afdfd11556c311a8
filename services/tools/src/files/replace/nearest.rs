//! Where a text that does not occur was probably meant to be.

use crate::text::brief;
use std::cmp::Reverse;

/// Lines of a file that are looked at.
const MOST_LINES: usize = 200_000;
/// Lines of the text that are compared at one place.
const MOST_COMPARED: usize = 50;
/// Lines that are compared letter by letter, and the longest of them.
const MOST_ALIKE: usize = 1000;
const LONGEST: usize = 300;
/// A line that is less alike is not the one that was meant.
const LEAST: f64 = 0.6;
/// Characters of a line that a message shows.
const SHOWN: usize = 120;

/// The place of `text` that is most like `old`, and how they differ; none if no place is like it.
pub(super) fn nearest(text: &str, old: &str) -> Option<String> {
    let wanted: Vec<&str> = old.lines().skip_while(|line| is_blank(line)).collect();
    let first = wanted.first()?;
    let lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
    let run = |at: usize| {
        let pairs = lines[at..].iter().zip(wanted.iter().take(MOST_COMPARED));
        pairs.take_while(|(a, b)| a.trim() == b.trim()).count()
    };
    let places = (0..lines.len()).map(|at| (run(at), Reverse(at)));
    let (run, Reverse(at)) = places.max()?;
    if run > 0 {
        return Some(differs(&lines[at..], &wanted, run, at + 1));
    }
    let at = alike(&lines, first.trim())?;
    let line = brief(lines[at], SHOWN);
    Some(format!("the nearest line is line {}: `{line}`", at + 1))
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// How the lines at a place differ from the wanted ones. The first `run` of them are the same but for spaces.
fn differs(lines: &[&str], wanted: &[&str], run: usize, number: usize) -> String {
    let mut pairs = lines.iter().zip(wanted).take(run + 1).enumerate();
    match pairs.find(|(_, (line, wanted))| line != wanted) {
        Some((at, (line, wanted))) => format!(
            "line {} is `{}`, where 'old' has `{}`",
            number + at,
            brief(line, SHOWN),
            brief(wanted, SHOWN)
        ),
        None if wanted.len() <= run => {
            format!("from line {number} on, they differ in line breaks only")
        }
        None if lines.len() <= run => format!(
            "the file ends after line {}, and 'old' goes on with `{}`",
            number + run - 1,
            brief(wanted[run], SHOWN)
        ),
        None => format!("the first {run} lines of 'old' are those from line {number} on"),
    }
}

/// The line that is most like `wanted`, among those that share its longest word.
fn alike(lines: &[&str], wanted: &str) -> Option<usize> {
    let words = wanted.split(|c: char| !c.is_alphanumeric() && c != '_');
    let word = words
        .max_by_key(|word| word.len())
        .filter(|word| word.len() >= 3)?;
    let wanted: String = wanted.chars().take(LONGEST).collect();
    let sharing = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(word));
    let short = sharing.filter(|(_, line)| line.len() <= LONGEST);
    let scored = short.take(MOST_ALIKE).map(|(at, line)| {
        let score = strsim::jaro_winkler(line.trim(), &wanted);
        (at, score)
    });
    let best = scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (best.1 >= LEAST).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_that_was_meant_is_named() {
        let text = "fn add(a: u32, b: u32) -> u32 {\n    a - b\n}\n\nfn main() {\n\tprintln!(\"{}\", add(1, 2));\n}\n";
        for (old, expected) in [
            ("    a + b\n", None),
            (
                "  a - b\n",
                Some("line 2 is `    a - b`, where 'old' has `  a - b`"),
            ),
            (
                "fn main() {\n    println!(\"{}\", add(1, 2));\n}\n",
                Some(
                    "line 6 is `\tprintln!(\"{}\", add(1, 2));`, where 'old' has `    println!(\"{}\", add(1, 2));`",
                ),
            ),
            (
                "fn add(a: u32, b: u32) -> u32 {\n    a + b\n}",
                Some("line 2 is `    a - b`, where 'old' has `    a + b`"),
            ),
            (
                "fn add(a: i32, b: i32) -> u32 {",
                Some("the nearest line is line 1: `fn add(a: u32, b: u32) -> u32 {`"),
            ),
            (
                "}\nfn more() {}",
                Some("line 4 is ``, where 'old' has `fn more() {}`"),
            ),
            (
                "\tprintln!(\"{}\", add(1, 2));\n}\nmore",
                Some("the file ends after line 7, and 'old' goes on with `more`"),
            ),
            ("zebra", None),
            ("\n\n \n", None),
        ] {
            assert_eq!(nearest(text, old).as_deref(), expected, "{old:?}");
        }
        assert_eq!(nearest("", "a"), None);
    }

    #[test]
    fn a_huge_file_takes_no_time_to_speak_of() {
        let (text, old) = ("x\n".repeat(4 << 20), "x\n".repeat(100_000) + "y");
        let began = std::time::Instant::now();
        let hint = nearest(&text, &old).unwrap();
        assert_eq!(hint, "the first 50 lines of 'old' are those from line 1 on");
        assert!(began.elapsed().as_secs() < 60);
    }
}
