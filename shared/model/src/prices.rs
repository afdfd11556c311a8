//! What tokens cost: prices as dated data that can be replaced, and exact sums. The list also says which
//! models see.
//!
//! The list that is compiled in (`prices.toml` of this crate) says when it was made and from which
//! pages of the vendors. Prices change: a newer list is a file of the same shape, and the settings
//! of a model may name its prices themselves. A model that is in no list has no known price, and
//! its cost counts as 0; nothing is guessed.

use crate::ModelInfo;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// Digits after the point of a price in US dollars.
const DECIMALS: usize = 9;

/// Prices of a million tokens, each in 10⁻⁹ US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Sent, and not in the provider's cache.
    pub input: u64,
    /// Sent, and found in the provider's cache.
    pub cached_input: u64,
    /// Sent, and put into the provider's cache.
    pub cache_write: u64,
    /// Received.
    pub output: u64,
}

impl Prices {
    /// Nothing costs anything.
    pub const FREE: Self = Self {
        input: 0,
        cached_input: 0,
        cache_write: 0,
        output: 0,
    };

    /// Prices that know no cache.
    pub fn flat(input: u64, output: u64) -> Self {
        Self {
            input,
            cached_input: input,
            cache_write: input,
            output,
        }
    }

    /// What these tokens cost, in 10⁻⁹ US dollars, rounded up once.
    pub fn cost_nano_usd(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        let parts = [
            (plain, self.input),
            (cached, self.cached_input),
            (written, self.cache_write),
            (usage.output_tokens, self.output),
        ];
        let sum = parts.into_iter().fold(0u128, |sum, (count, price)| {
            sum.saturating_add(u128::from(count) * u128::from(price))
        });
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl ModelInfo {
    /// Notes what these tokens cost, rounded up, or that no price of them is known.
    pub fn price(&self, usage: &mut Usage) {
        match self.prices {
            Some(prices) => usage.cost_nano_usd = prices.cost_nano_usd(usage),
            None => usage.unpriced_tokens = usage.tokens(),
        }
    }
}

/// A dated list of prices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceBook {
    as_of: String,
    providers: BTreeMap<String, Listed>,
}

impl PriceBook {
    /// The list that is compiled in.
    pub fn built_in() -> &'static Self {
        static BOOK: LazyLock<PriceBook> = LazyLock::new(|| {
            // That it can be read is what a test is for.
            PriceBook::parse("prices.toml", include_str!("../prices.toml")).unwrap_or_default()
        });
        &BOOK
    }

    /// Reads a list from a file.
    ///
    /// # Errors
    /// A failure of kind Config: the file cannot be read, or is wrong; the place is named.
    pub fn from_file(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!("the prices {} cannot be read: {error}", path.display());
            Failure::new(FailureKind::Config, "unreadable", message)
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Takes a list from a text. See `prices.toml` of this crate for its shape.
    ///
    /// # Errors
    /// A failure of kind Config that names the place.
    pub fn parse(name: &str, text: &str) -> Result<Self, Failure> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let message = format!(
                "the prices {name} are wrong in line {line}: {}",
                error.message()
            );
            Failure::new(FailureKind::Config, "invalid", message)
        })?;
        Ok(Self {
            as_of: file.as_of,
            providers: file.providers,
        })
    }

    /// When the list was made, as it says itself.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// The pages that the list was taken from.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.providers.values().map(|listed| listed.source.as_str())
    }

    /// The prices of a model by its name at the provider. A dated version has the prices of the
    /// model, unless it has a line of its own.
    pub fn find(&self, provider: &str, model: &str) -> Option<Prices> {
        self.line(provider, model).map(Prices::from)
    }

    /// Whether a model sees, if the list says so; the model is found as in [`PriceBook::find`].
    pub fn vision(&self, provider: &str, model: &str) -> Option<bool> {
        self.line(provider, model)?.vision
    }

    fn line(&self, provider: &str, model: &str) -> Option<Line> {
        let models = &self.providers.get(provider)?.models;
        let listed = models.get(model).or_else(|| models.get(undated(model)));
        listed.copied()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    as_of: String,
    providers: BTreeMap<String, Listed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    source: String,
    models: BTreeMap<String, Line>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    input: Dollars,
    cached_input: Option<Dollars>,
    cache_write: Option<Dollars>,
    output: Dollars,
    /// The model is sent pictures. A list without it says nothing of that.
    vision: Option<bool>,
}

impl From<Line> for Prices {
    fn from(line: Line) -> Self {
        Self {
            input: line.input.0,
            cached_input: line.cached_input.unwrap_or(line.input).0,
            cache_write: line.cache_write.unwrap_or(line.input).0,
            output: line.output.0,
        }
    }
}

/// An amount in 10⁻⁹ US dollars, written as a text such as `"0.125"` so that nothing is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dollars(u64);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let expected = "US dollars for a million tokens as a text, such as \"0.125\"";
        let dollars = dollars(&text).map(Self);
        dollars.ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &expected))
    }
}

/// Reads a decimal number of dollars.
fn dollars(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > DECIMALS {
        return None;
    }
    format!("{whole}{part:0<DECIMALS$}").parse().ok()
}

/// The name without a date at its end: `-20250929`, `-2025-09-29` or `-latest`.
fn undated(model: &str) -> &str {
    if let Some(name) = model.strip_suffix("-latest") {
        return name;
    }
    let is_date = |text: &str, pattern: &str| {
        text.len() == pattern.len()
            && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| {
                if wanted == b'0' {
                    byte.is_ascii_digit()
                } else {
                    byte == wanted
                }
            })
    };
    let patterns = ["-00000000", "-0000-00-00"];
    let cut = patterns.iter().find_map(|pattern| {
        let (name, end) = model.split_at_checked(model.len().checked_sub(pattern.len())?)?;
        is_date(end, pattern).then_some(name)
    });
    cut.unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_can_be_read_and_says_its_date_and_sources() {
        let text = include_str!("../prices.toml");
        let book = PriceBook::parse("prices.toml", text).expect("a list");
        assert_eq!(PriceBook::built_in(), &book);
        assert_eq!(book.as_of().len(), "2026-03".len());
        assert!(
            book.sources().count() == 2 && book.sources().all(|url| url.starts_with("https://"))
        );
        let mini = book.find("openai", "gpt-5-mini").expect("listed");
        let expected = Prices {
            input: 250_000_000,
            cached_input: 25_000_000,
            cache_write: 250_000_000,
            output: 2_000_000_000,
        };
        assert_eq!(mini, expected);
        for listed in book.providers.values() {
            for (model, line) in &listed.models {
                assert!(line.vision.is_some(), "{model}");
                let prices = Prices::from(*line);
                assert!(prices.output > prices.input, "{model}");
                assert!(prices.cached_input <= prices.input, "{model}");
                assert!(prices.cache_write >= prices.input, "{model}");
            }
        }
    }

    #[test]
    fn a_dated_version_has_the_price_of_its_model_and_nothing_is_guessed() {
        let book = PriceBook::built_in();
        let find = |provider, model| book.find(provider, model);
        for (provider, dated, plain) in [
            (
                "anthropic",
                "claude-sonnet-4-5-20250929",
                "claude-sonnet-4-5",
            ),
            ("anthropic", "claude-3-5-haiku-latest", "claude-3-5-haiku"),
            ("openai", "gpt-4o-2024-08-06", "gpt-4o"),
        ] {
            assert!(find(provider, dated).is_some());
            assert_eq!(find(provider, dated), find(provider, plain));
        }
        assert_ne!(
            find("openai", "gpt-4o-2024-05-13"),
            find("openai", "gpt-4o")
        );
        let vision = |provider, model| book.vision(provider, model);
        for (provider, model, expected) in [
            ("anthropic", "claude-sonnet-4-5-20250929", Some(true)),
            ("openai", "gpt-4o-2024-08-06", Some(true)),
            ("openai", "o3-mini", Some(false)),
            ("openai", "gpt-5-turbo", None),
        ] {
            assert_eq!(vision(provider, model), expected, "{model}");
        }
        for unknown in [
            "gpt-5-turbo",
            "gpt",
            "",
            "é",
            "gpt-5-2025-08-0x",
            "-20250929",
        ] {
            assert_eq!(find("openai", unknown), None, "{unknown}");
        }
        assert_eq!(find("anthropic", "gpt-5"), None);
    }

    #[test]
    fn sums_are_exact_and_rounded_up_once() {
        // 3, 0.30, 3.75 and 15 dollars a million.
        let prices = Prices {
            input: 3_000_000_000,
            cached_input: 300_000_000,
            cache_write: 3_750_000_000,
            output: 15_000_000_000,
        };
        let usage = Usage {
            input_tokens: 10_000,
            cached_input_tokens: 7_000,
            cache_write_tokens: 2_000,
            output_tokens: 100,
            ..Usage::default()
        };
        // 1,000 × 3,000 + 7,000 × 300 + 2,000 × 3,750 + 100 × 15,000 nano-dollars.
        assert_eq!(prices.cost_nano_usd(&usage), 14_100_000);
        let few = Prices::flat(400_000, 400_000);
        let one = Usage {
            input_tokens: 1,
            output_tokens: 1,
            ..Usage::default()
        };
        assert_eq!(few.cost_nano_usd(&one), 1);
        assert_eq!(Prices::FREE.cost_nano_usd(&usage), 0);
        // More in the cache than was sent is a server's slip, not a discount on the rest.
        let odd = Usage {
            input_tokens: 10,
            cached_input_tokens: 20,
            cache_write_tokens: 20,
            ..Usage::default()
        };
        assert_eq!(prices.cost_nano_usd(&odd), 3_000);
        let most = Usage {
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            ..Usage::default()
        };
        assert_eq!(
            Prices::flat(u64::MAX, u64::MAX).cost_nano_usd(&most),
            u64::MAX
        );
    }

    #[test]
    fn dollars_are_read_digit_by_digit() {
        for (text, nano) in [
            ("0", 0),
            ("15", 15_000_000_000),
            ("0.125", 125_000_000),
            ("0.000000001", 1),
        ] {
            assert_eq!(dollars(text), Some(nano), "{text}");
        }
        for bad in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "1e3",
            "1,5",
            "0.0000000001",
            "99999999999",
        ] {
            assert_eq!(dollars(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_list_without_a_word_on_vision_is_as_good() {
        let text = "as_of = '2026-01'\n[providers.x]\nsource = 'y'\n[providers.x.models]\n\
            m = { input = '1', output = '2' }\nn = { input = '1', output = '2', vision = false }";
        let book = PriceBook::parse("p.toml", text).expect("a list");
        assert_eq!(book.find("x", "m"), book.find("x", "n"));
        assert_eq!(book.vision("x", "m"), None);
        assert_eq!(book.vision("x", "n"), Some(false));
    }

    #[test]
    fn a_faulty_list_is_reported_where() {
        let with = |line: &str| {
            format!("as_of = '2026-01'\n[providers.x]\nsource = 'y'\n[providers.x.models]\n{line}")
        };
        let cases = [
            ("as_of = 5".to_owned(), "line 1"),
            (with("m = { input = '1' }"), "line 5"),
            (with("m = { input = '-1', output = '1' }"), "0.125"),
            (with("m = { input = 1, output = '1' }"), "line 5"),
            (with("m = { inptu = '1' }"), "inptu"),
            ("[x".to_owned(), "line 1"),
        ];
        for (text, expected) in &cases {
            let (text, expected) = (text.as_str(), *expected);
            let failure = PriceBook::parse("p.toml", text).expect_err("faulty");
            assert_eq!(failure.kind, FailureKind::Config);
            assert!(failure.message.contains(expected), "{failure}");
            assert!(failure.message.contains("p.toml"), "{failure}");
        }
        let failure = PriceBook::from_file(Path::new("/no/such.toml")).expect_err("absent");
        assert!(failure.message.contains("/no/such.toml"), "{failure}");
    }
}
