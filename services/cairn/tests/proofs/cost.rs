//! The cost of a conversation of 100 turns, each with a tool call, by the prices of a model of each vendor: with
//! and without the provider's cache, and with and without compaction. The model is played, and its server counts
//! by a vendor's tokenizer what the cache has of each request.
//!
//! The table is printed. One figure is held: compaction with a cache costs less than neither.

mod cache;
mod model;

use crate::support::place::Place;
use crate::support::served::{SESSION, client};
use crate::support::talk;
use cache::Counted;
use cairn_engine::message::Usage;
use cairn_model::{PriceBook, Prices};
use cairn_testkit::TestStore;
use clap::Args;
use tokio::runtime::Builder;

/// A window that no conversation fills.
const ENDLESS: u32 = 100_000_000;
const SETTINGS: &str = "[session]\nlease = \"10s\"\n\n[tools]\nallow = [\"search_files\"]\n";
/// Nano-dollars of a dollar.
const DOLLAR: f64 = 1e9;

/// How long the conversation is.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Turns of the conversation
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(20..=900))]
    pub(crate) turns: u16,
    /// Window of the model, where the conversation is compacted
    #[arg(long, value_name = "TOKENS", default_value_t = 32_000,
          value_parser = clap::value_parser!(u32).range(8_000..=1_000_000))]
    pub(crate) window: u32,
}

/// A protocol, and how its vendor's cache counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic,
    OpenAi,
}

impl Dialect {
    /// The provider in settings and in the list of prices.
    fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// A model in the list of prices.
    fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-4-6",
            Self::OpenAi => "gpt-5.2",
        }
    }
}

/// What a conversation took.
#[derive(Debug)]
struct Taken {
    requests: Vec<Counted>,
    compactions: Vec<String>,
}

impl Taken {
    fn sum(&self, of: impl Fn(&Counted) -> u64) -> u64 {
        self.requests.iter().map(of).sum()
    }

    /// In nano-dollars, with the provider's cache or without.
    fn cost(&self, prices: Prices, is_cached: bool) -> u64 {
        let only_cached = |tokens: u64| if is_cached { tokens } else { 0 };
        prices.cost_nano_usd(&Usage {
            input_tokens: self.sum(|it| it.tokens),
            cached_input_tokens: only_cached(self.sum(|it| it.read)),
            cache_write_tokens: only_cached(self.sum(|it| it.written)),
            output_tokens: self.sum(|it| it.replied),
            ..Usage::default()
        })
    }

    fn print(&self, name: &str) {
        let of_kind = |kind: &str| self.compactions.iter().filter(|it| *it == kind).count();
        let (tokens, read) = (self.sum(|it| it.tokens), self.sum(|it| it.read));
        let most = self.requests.iter().map(|it| it.tokens).max();
        println!(
            "  {name:<11} {:>4} requests, {tokens:>8} tokens, {:>2} % of them cached, at most {:>6} tokens; {} \
             views, {} summaries",
            self.requests.len(),
            read * 100 / tokens.max(1),
            most.unwrap_or_default(),
            of_kind("history"),
            of_kind("summary"),
        );
    }
}

/// Has the conversations, prints what they cost, and panics if compaction with a cache costs as much as neither.
pub(crate) fn prove(options: &Options) {
    let turns = usize::from(options.turns);
    let book = PriceBook::built_in();
    let mut lines = Vec::new();
    for dialect in [Dialect::Anthropic, Dialect::OpenAi] {
        println!("{turns} turns by the protocol of {}:", dialect.provider());
        let whole = converse(dialect, turns, ENDLESS);
        whole.print("whole");
        let compacted = converse(dialect, turns, options.window);
        compacted.print("compacted");
        assert_eq!(whole.compactions, [""; 0]);
        assert!(!compacted.compactions.is_empty(), "it fits into its window");
        let prices = book.find(dialect.provider(), dialect.model());
        let prices = prices.expect("a model of the list");
        let costs = [
            whole.cost(prices, false),
            whole.cost(prices, true),
            compacted.cost(prices, false),
            compacted.cost(prices, true),
        ];
        lines.push((dialect.model(), costs));
    }
    println!("\nUS dollars by the list of {}", book.as_of());
    println!(
        "{:<20} {:>9} {:>9} {:>11} {:>9}",
        "model", "neither", "caching", "compaction", "both"
    );
    for (model, costs) in &lines {
        let [neither, caching, compaction, both] = costs.map(|nano| nano as f64 / DOLLAR);
        println!("{model:<20} {neither:>9.4} {caching:>9.4} {compaction:>11.4} {both:>9.4}");
    }
    for (model, [neither, .., both]) in lines {
        assert!(both < neither, "{model}: {both} of {neither}");
    }
    println!("compaction with a cache costs less than neither");
}

fn converse(dialect: Dialect, turns: usize, window: u32) -> Taken {
    let (server, counted) = model::start(dialect);
    let mut place = Place::over(TestStore::file());
    let settings = format!(
        "{SETTINGS}\n[model]\ndefault = \"served\"\n\n[models.served]\nprovider = \"{}\"\n\
         model = \"served-1\"\nbase_url = \"{}\"\napi_key = \"sk-none\"\nwindow_tokens = {window}\n",
        dialect.provider(),
        server.url()
    );
    place.site.write("cairn.toml", &settings);
    place.site.write("parts.txt", &model::parts(turns));
    place.keep_serving();
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = client(&place.site);
        talk::create(&mut client, SESSION).await;
        for turn in 0..turns {
            let id = format!("turn-{turn}");
            let request = talk::request(SESSION, &id, &model::question(turn));
            let ended = talk::to_end(&mut client, request).await;
            let ended = ended.unwrap_or_else(|status| panic!("{id}: {status:?}"));
            assert_eq!(ended.response(), model::answer(), "{id}");
        }
    });
    place.stop_server();
    let journal = place.journal(SESSION);
    let compacted = journal.of_kind("context_compacted").into_iter();
    let kinds = compacted.filter_map(|event| event["compaction"].as_str());
    Taken {
        requests: std::mem::take(&mut *counted.lock().expect("no panic")),
        compactions: kinds.map(str::to_owned).collect(),
    }
}
