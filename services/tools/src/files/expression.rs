//! Regular expressions over text that comes in pieces, in bounded memory, and with work that can be
//! given up between any two bytes.
//!
//! The engines behind `regex::Regex` search a line in one call that nothing can stop: a line of 4 MiB
//! takes some expressions minutes. Here a lazily built automaton is stepped by hand. No step costs
//! more than building one state, and the states have a fixed place.

use regex_automata::Input;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::syntax;

/// Most bytes of a compiled expression. It also bounds the work for one byte of text: some 100
/// microseconds.
const COMPILED_BYTES: usize = 256 << 10;
/// Most bytes of the automaton's states. When they are used up, it forgets them all and continues.
const STATE_BYTES: usize = 1 << 20;
/// The longest text, in bytes, that is searched in one go.
pub(super) const SHORT: usize = 1024;
/// An expression of this many states at most searches a short text in some milliseconds.
const QUICK_STATES: usize = 512;

/// A compiled expression and the state of one search with it.
#[derive(Debug)]
pub(super) struct Expression {
    automaton: DFA,
    cache: Cache,
    /// Made when it is first needed.
    whole: Option<(PikeVM, pikevm::Cache)>,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    At(LazyStateID),
    Ended(Verdict),
}

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The text matches.
    Match,
    /// It does not.
    NoMatch,
    /// The automaton cannot tell: it knows Unicode word boundaries only between ASCII characters.
    Unknown,
}

impl Expression {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// What is wrong with it, for the model.
    pub(super) fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let syntax = syntax::Config::new()
            .utf8(false)
            .case_insensitive(ignore_case);
        let parsed = syntax::parse_with(pattern, &syntax).map_err(|error| error.to_string())?;
        let too_large = || {
            format!(
                "it takes more than {} KiB once it is compiled; repeat less in it",
                COMPILED_BYTES >> 10
            )
        };
        let config = NFA::config()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(COMPILED_BYTES));
        let nfa = NFA::compiler().configure(config).build_from_hir(&parsed);
        let nfa = nfa.map_err(|_| too_large())?;
        let config = DFA::config()
            .cache_capacity(STATE_BYTES)
            .unicode_word_boundary(true);
        let automaton = DFA::builder().configure(config).build_from_nfa(nfa);
        let automaton = automaton.map_err(|_| too_large())?;
        Ok(Self {
            cache: automaton.create_cache(),
            automaton,
            whole: None,
            run: Run::Ended(Verdict::NoMatch),
        })
    }

    /// Begins a new text.
    pub(super) fn begin(&mut self) {
        let start = self
            .automaton
            .start_state_forward(&mut self.cache, &Input::new(""));
        self.run = match start {
            Ok(state) if state.is_dead() => Run::Ended(Verdict::NoMatch),
            Ok(state) => Run::At(state),
            Err(_) => Run::Ended(Verdict::Unknown),
        };
    }

    /// Takes the next bytes of the text. Whether what follows may still change the verdict.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        let Run::At(mut state) = self.run else {
            return false;
        };
        for byte in bytes {
            state = match self.automaton.next_state(&mut self.cache, state, *byte) {
                Ok(state) => state,
                Err(_) => return self.decide(Verdict::Unknown),
            };
            if !state.is_tagged() {
                continue;
            }
            if state.is_match() {
                return self.decide(Verdict::Match);
            }
            if state.is_dead() {
                return self.decide(Verdict::NoMatch);
            }
            if state.is_quit() {
                return self.decide(Verdict::Unknown);
            }
        }
        self.run = Run::At(state);
        true
    }

    fn decide(&mut self, verdict: Verdict) -> bool {
        self.run = Run::Ended(verdict);
        false
    }

    /// Ends the text.
    pub(super) fn end(&mut self) -> Verdict {
        let state = match self.run {
            Run::At(state) => state,
            Run::Ended(verdict) => return verdict,
        };
        match self.automaton.next_eoi_state(&mut self.cache, state) {
            Ok(state) if state.is_match() => Verdict::Match,
            Ok(_) => Verdict::NoMatch,
            Err(_) => Verdict::Unknown,
        }
    }

    /// Whether it searches a short text so fast that it need not be stopped.
    pub(super) fn is_quick(&self) -> bool {
        self.automaton.get_nfa().states().len() <= QUICK_STATES
    }

    /// Searches one short text, such as a line of at most [`SHORT`] bytes or a path. This also knows
    /// Unicode word boundaries, and cannot be stopped.
    pub(super) fn is_match(&mut self, text: &[u8]) -> bool {
        let input = Input::new(text).earliest(true);
        match self.automaton.try_search_fwd(&mut self.cache, &input) {
            Ok(end) => end.is_some(),
            Err(_) => self.is_match_at_once(text),
        }
    }

    fn is_match_at_once(&mut self, text: &[u8]) -> bool {
        if self.whole.is_none() {
            let machine = PikeVM::new_from_nfa(self.automaton.get_nfa().clone());
            self.whole = machine.ok().map(|machine| {
                let cache = machine.create_cache();
                (machine, cache)
            });
        }
        self.whole
            .as_mut()
            .is_some_and(|(machine, cache)| machine.is_match(cache, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(expression: &mut Expression, text: &[u8], size: usize) -> Verdict {
        expression.begin();
        for piece in text.chunks(size) {
            expression.feed(piece);
        }
        expression.end()
    }

    #[test]
    fn the_pieces_make_no_difference() {
        for (pattern, text, expected) in [
            ("needle", "hay needle hay", true),
            ("^hay", "hay needle", true),
            ("^needle", "hay needle", false),
            ("needle$", "hay needle", true),
            ("hay$", "hay needle", false),
            ("^$", "", true),
            ("^$", "x", false),
            ("x*", "", true),
            ("ÄPFEL", "zwölf äpfel", true),
            ("a.c", "a€c", true),
            ("(?-u)\\xff", "x", false),
            ("\\bneedle\\b", "a needle.", true),
            ("\\bneedle\\b", "needles", false),
            ("[a&&b]", "ab", false),
        ] {
            let mut expression = Expression::new(pattern, true).unwrap();
            for size in [1, 2, 3, 1000] {
                let verdict = in_pieces(&mut expression, text.as_bytes(), size);
                let found = verdict == Verdict::Match;
                assert_eq!(found, expected, "{pattern} in {text} by {size}");
            }
            assert_eq!(expression.is_match(text.as_bytes()), expected, "{pattern}");
        }
    }

    #[test]
    fn word_boundaries_beside_other_characters_are_known_in_short_texts() {
        let mut expression = Expression::new("\\bcafé\\b", false).unwrap();
        for (text, expected) in [("un café.", true), ("cafés", false)] {
            let verdict = in_pieces(&mut expression, text.as_bytes(), 1);
            assert_eq!(verdict, Verdict::Unknown, "{text}");
            assert_eq!(expression.is_match(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn states_that_are_forgotten_change_nothing() {
        let mut expression = Expression::new("(?-u)[ab]*a[ab]{1000}c", false).unwrap();
        let mut text: Vec<u8> = (0..20_000_u32)
            .map(|n| b"ab"[(n.wrapping_mul(2_654_435_761) >> 31) as usize])
            .collect();
        assert_eq!(in_pieces(&mut expression, &text, 64), Verdict::NoMatch);
        text.extend([b'a'; 1001]);
        text.push(b'c');
        assert_eq!(in_pieces(&mut expression, &text, 64), Verdict::Match);
    }

    #[test]
    fn expressions_have_a_largest_size() {
        for pattern in ["[ab]{30000}", "\\w{1000}", "((a{1000}){1000}){1000}"] {
            let error = Expression::new(pattern, false).unwrap_err();
            assert!(error.contains("256 KiB"), "{pattern}: {error}");
        }
        let usual = [
            "\\w+@\\w+\\.(com|org)",
            "\\b\\d{4}-\\d{2}-\\d{2}\\b",
            "^\\s*(pub )?fn \\w+",
            "\\p{Greek}{2,10}",
        ];
        for pattern in usual {
            Expression::new(pattern, true).unwrap();
        }
        // Text of as many characters as a pattern may have.
        Expression::new(&"kſ".repeat(500), true).unwrap();
    }
}
