//! Models: the offline model is always there, others as configured.

use super::Settings;
use cairn_boot::{Checks, ConfigErrors, ConfigFault, Origin, Secret};
use cairn_model::{
    Anthropic, AnthropicConfig, Model, ModelRegistry, Offline, OpenAi, OpenAiConfig, OptionalField,
    PriceBook, Prices, Recorded, ServerConfig, anthropic, openai,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The offline default's name.
pub const OFFLINE: &str = "offline";
/// The name of the model that `OPENAI_API_KEY` configures, and the default once it is there.
pub const OPENAI: &str = openai::OPENAI;
/// The name of the model that `ANTHROPIC_API_KEY` configures, and the default once it is there and
/// [`OPENAI`] is not.
pub const ANTHROPIC: &str = anthropic::ANTHROPIC;

/// What a model's provider is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Any server with OpenAI's chat API.
    Openai,
    /// Any server with Anthropic's Messages API.
    Anthropic,
    /// Replies from a file.
    Recorded,
}

/// Headers by name.
pub type Headers = BTreeMap<String, Secret>;

/// A model.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderSettings {
    /// What it is; without a word, `anthropic` for the model of that name, else `openai`.
    pub provider: Option<Provider>,
    /// Address up to and without `/chat/completions` or `/v1/messages`; without one, the
    /// provider's own.
    pub base_url: Option<String>,
    /// The key; local servers often need none.
    pub api_key: Secret,
    /// Headers sent besides, by name; they are taken for secrets.
    #[serde(deserialize_with = "headers")]
    pub headers: Headers,
    /// Its name at the server.
    pub model: Option<String>,
    /// Longest time for a connection to stand.
    #[serde(with = "cairn_boot::config::duration")]
    pub connect_timeout: Duration,
    /// Longest time to the first piece of a streamed reply.
    #[serde(with = "cairn_boot::config::duration")]
    pub first_byte_timeout: Duration,
    /// Longest silence between two pieces of a streamed reply.
    #[serde(with = "cairn_boot::config::duration")]
    pub idle_timeout: Duration,
    /// Longest time for a whole reply.
    #[serde(with = "cairn_boot::config::duration")]
    pub total_timeout: Duration,
    /// Tokens that fit into one conversation; without a number, what is usual with the provider.
    pub window_tokens: Option<u64>,
    /// Most tokens that a reply may have.
    pub max_output_tokens: Option<u32>,
    /// It is sent pictures and documents; without a word, as the list of prices says.
    pub vision: Option<bool>,
    /// A reply may ask for several calls; without a word, as the server does by itself.
    pub parallel_tool_calls: Option<bool>,
    /// Fields that the server is not sent.
    pub omit: Vec<OptionalField>,
    /// Price of a million tokens sent, in US dollars; without it the list of prices counts.
    pub input_usd_per_million: Option<f64>,
    /// The same for those that the provider had in its cache; without it they cost what others do.
    pub cached_input_usd_per_million: Option<f64>,
    /// The same for those that the provider put into its cache.
    pub cache_write_usd_per_million: Option<f64>,
    /// Price of a million tokens received, in US dollars.
    pub output_usd_per_million: Option<f64>,
    /// Allow the key to travel over plain HTTP to another machine.
    pub allow_insecure_http: bool,
    /// With `recorded`: the file of exchanges.
    pub path: Option<PathBuf>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        let server = ServerConfig::new("", "");
        Self {
            provider: None,
            base_url: None,
            api_key: Secret::default(),
            headers: BTreeMap::new(),
            model: None,
            connect_timeout: server.connect_timeout,
            first_byte_timeout: server.first_byte_timeout,
            idle_timeout: server.idle_timeout,
            total_timeout: server.total_timeout,
            window_tokens: None,
            max_output_tokens: None,
            vision: None,
            parallel_tool_calls: None,
            omit: Vec::new(),
            input_usd_per_million: None,
            cached_input_usd_per_million: None,
            cache_write_usd_per_million: None,
            output_usd_per_million: None,
            allow_insecure_http: false,
            path: None,
        }
    }
}

impl ProviderSettings {
    fn provider(&self, name: &str) -> Provider {
        let by_name = match name {
            ANTHROPIC => Provider::Anthropic,
            _ => Provider::Openai,
        };
        self.provider.unwrap_or(by_name)
    }

    /// The address of this model, if it is certain to refuse every request: it is the provider's own,
    /// and there is no key.
    fn refuses(&self, name: &str) -> Option<&str> {
        let (own, origin) = match self.provider(name) {
            Provider::Openai => (openai::BASE_URL, "https://api.openai.com"),
            Provider::Anthropic => (anthropic::BASE_URL, "https://api.anthropic.com"),
            Provider::Recorded => return None,
        };
        let url = self.base_url.as_deref().unwrap_or(own);
        let beyond = url.get(origin.len()..)?;
        let is_own = url[..origin.len()].eq_ignore_ascii_case(origin)
            && (beyond.is_empty() || beyond.starts_with('/'));
        // A key may be among the headers.
        let has_none = !self.api_key.is_set() && self.headers.is_empty();
        (is_own && has_none).then_some(url)
    }

    /// The settings of a server whose own address, model and window are these; of `settings`, what
    /// holds for all models. `listed` is the operator's list of prices, with the provider's name in it.
    fn server(
        &self,
        own: ServerConfig,
        settings: &Settings,
        listed: (&PriceBook, &str),
    ) -> ServerConfig {
        let (list, provider) = listed;
        let model = self.model.clone().unwrap_or(own.model);
        let headers = self.headers.iter();
        ServerConfig {
            base_url: self.base_url.clone().unwrap_or(own.base_url),
            api_key: (self.api_key.is_set()).then(|| self.api_key.expose().into()),
            extra_headers: headers
                .map(|(name, value)| (name.clone(), value.expose().into()))
                .collect(),
            connect_timeout: self.connect_timeout,
            first_byte_timeout: self.first_byte_timeout,
            idle_timeout: self.idle_timeout,
            total_timeout: self.total_timeout,
            max_reply_bytes: settings.model.max_reply_bytes,
            window_tokens: self.window_tokens.unwrap_or(own.window_tokens),
            max_output_tokens: self.max_output_tokens,
            vision: self.vision.or_else(|| list.vision(provider, &model)),
            parallel_tool_calls: self.parallel_tool_calls,
            omit: self.omit.clone(),
            prices: self.prices().or_else(|| list.find(provider, &model)),
            allow_insecure_http: self.allow_insecure_http,
            proxies: settings.proxies.clone(),
            model,
        }
    }

    /// The prices that are configured, if they are whole.
    fn prices(&self) -> Option<Prices> {
        let input = nano(self.input_usd_per_million?);
        Some(Prices {
            input,
            cached_input: self.cached_input_usd_per_million.map_or(input, nano),
            cache_write: self.cache_write_usd_per_million.map_or(input, nano),
            output: nano(self.output_usd_per_million?),
        })
    }

    /// Builds the model; what is wrong with it as setting, problem, allowed.
    fn build(
        &self,
        name: &str,
        settings: &Settings,
        prices: &PriceBook,
    ) -> Result<Arc<dyn Model>, Fault> {
        let fault = |setting: &str, problem: String, allowed: &str| Fault {
            setting: format!("models.{name}{setting}"),
            problem,
            allowed: allowed.to_owned(),
        };
        let refused = |failure: cairn_engine::failure::Failure| {
            let (setting, allowed) = faulty(&failure.reason);
            fault(setting, format!("is wrong: {}", failure.message), allowed)
        };
        match self.provider(name) {
            Provider::Openai => {
                let own = ServerConfig::new(openai::BASE_URL, "gpt-5-mini");
                let server = self.server(own, settings, (prices, OPENAI));
                let model = OpenAi::new(OpenAiConfig::from(server)).map_err(refused)?;
                Ok(Arc::new(model))
            }
            Provider::Anthropic => {
                let own = AnthropicConfig::new(anthropic::BASE_URL, "claude-sonnet-4-5").server;
                let server = self.server(own, settings, (prices, ANTHROPIC));
                let model = Anthropic::new(AnthropicConfig::from(server)).map_err(refused)?;
                Ok(Arc::new(model))
            }
            Provider::Recorded => {
                let allowed = "a file of exchanges, one JSON object a line";
                let missing = || fault(".path", "is missing".to_owned(), allowed);
                let path = self.path.as_ref().ok_or_else(missing)?;
                let model = Recorded::from_file(path);
                Ok(Arc::new(model.map_err(|e| fault(".path", e.message, ""))?))
            }
        }
    }

    fn check(&self, name: &str, checks: &mut Checks) {
        let setting = |field: &str| format!("models.{name}.{field}");
        let (input, output) = (self.input_usd_per_million, self.output_usd_per_million);
        let cache = [
            (
                "cached_input_usd_per_million",
                self.cached_input_usd_per_million,
            ),
            (
                "cache_write_usd_per_million",
                self.cache_write_usd_per_million,
            ),
        ];
        let prices = [
            ("input_usd_per_million", input),
            ("output_usd_per_million", output),
        ];
        for (field, price) in prices.into_iter().chain(cache) {
            if let Some(price) = price {
                checks.range(&setting(field), price, 0.0..=1_000_000.0);
            }
        }
        let any = cache.iter().any(|(_, price)| price.is_some()) || input.or(output).is_some();
        for (field, price) in prices {
            let whole = !any || price.is_some();
            let problem = "is missing beside the other prices";
            checks.require(
                whole,
                &setting(field),
                problem,
                "US dollars, 0 if it is free",
            );
        }
        let (least, day) = (Duration::from_millis(1), Duration::from_secs(86_400));
        for (field, limit) in [
            ("connect_timeout", self.connect_timeout),
            ("first_byte_timeout", self.first_byte_timeout),
            ("idle_timeout", self.idle_timeout),
            ("total_timeout", self.total_timeout),
        ] {
            checks.range(&setting(field), limit, least..=day);
        }
        if let Some(tokens) = self.window_tokens {
            checks.range(&setting("window_tokens"), tokens, 1_000..=1_000_000_000);
        }
        if let Some(tokens) = self.max_output_tokens {
            checks.range(&setting("max_output_tokens"), tokens, 1..=10_000_000);
        }
    }
}

/// The setting that a failure names in its reason, and what is allowed there; without one, the model
/// as a whole.
fn faulty(reason: &str) -> (&'static str, &'static str) {
    match reason {
        "base_url" => (
            ".base_url",
            "an address that begins with https:// or http://",
        ),
        "headers" => (".headers", "names and values that HTTP allows"),
        "api_key" => (".api_key", "a key in printable ASCII characters"),
        "model" => (".model", "a name that the server knows"),
        _ => ("", "settings that the provider accepts"),
    }
}

struct Fault {
    setting: String,
    problem: String,
    allowed: String,
}

impl Settings {
    /// The models, the default one set. Models with a fault are left out.
    pub fn registry(&self) -> ModelRegistry {
        self.build_registry().0
    }

    /// The name of the default model, as configured.
    pub fn default_model(&self) -> &str {
        match &self.model.default {
            Some(name) => name,
            None if self.models.contains_key(OPENAI) => OPENAI,
            None if self.models.contains_key(ANTHROPIC) => ANTHROPIC,
            None => OFFLINE,
        }
    }

    /// What is certain to go wrong with a model that lacks its key, a line each. It is no fault of the
    /// settings: other processes may have the key in their environment.
    pub fn missing_keys(&self) -> Vec<String> {
        let models = self.models.iter();
        let refusing = models.filter_map(|(name, model)| Some((name, model.refuses(name)?)));
        refusing
            .map(|(name, url)| {
                format!(
                    "models.{name}.api_key is missing (allowed: a key; {url} takes no request \
                     without one)"
                )
            })
            .collect()
    }

    pub(super) fn check_models(&self, checks: &mut Checks) {
        self.model.check(checks);
        let taken = self.models.contains_key(OFFLINE);
        let problem = "is the name of the built-in offline model";
        checks.require(!taken, "models.offline", problem, "any other name");
        for (name, model) in &self.models {
            model.check(name, checks);
        }
        let (registry, faults) = self.build_registry();
        let has_faults = !faults.is_empty();
        for fault in faults {
            checks.require(false, &fault.setting, &fault.problem, &fault.allowed);
        }
        // A model that is configured wrongly has been told already.
        let is_told = has_faults && self.models.contains_key(self.default_model());
        if let Some((problem, allowed)) = self.unknown_default(&registry).filter(|_| !is_told) {
            checks.require(false, "model.default", &problem, &allowed);
        }
    }

    /// Checks the model that `--model` names. The settings do not check it when they are read, because the
    /// process that does the work may be another one, with models of its own.
    ///
    /// # Errors
    /// It is none of these models.
    pub fn check_named_model(&self, models: &ModelRegistry) -> Result<(), ConfigErrors> {
        match self.unknown_default(models) {
            None => Ok(()),
            Some((problem, allowed)) => Err(ConfigErrors(vec![ConfigFault {
                path: "model.default".to_owned(),
                source: Origin::Flag("--model".to_owned()),
                problem,
                allowed,
            }])),
        }
    }

    /// What is wrong with the default model, and what is allowed, if it is none of these models.
    fn unknown_default(&self, models: &ModelRegistry) -> Option<(String, String)> {
        let known: Vec<&str> = models.names().collect();
        let name = self.default_model();
        let problem = format!("is {name:?}, which is no model here");
        (!known.contains(&name)).then(|| (problem, known.join(", ")))
    }

    fn build_registry(&self) -> (ModelRegistry, Vec<Fault>) {
        let mut registry = ModelRegistry::new();
        registry.insert(OFFLINE, Arc::new(Offline::new(self.model.pace)));
        let mut faults = Vec::new();
        let prices = self.model.prices.as_deref().map(PriceBook::from_file);
        let prices = prices.unwrap_or_else(|| Ok(PriceBook::default()));
        let prices = prices.unwrap_or_else(|failure| {
            faults.push(Fault {
                setting: "model.prices".to_owned(),
                problem: format!("is wrong: {}", failure.message),
                allowed: "a list of prices in TOML".to_owned(),
            });
            PriceBook::default()
        });
        for (name, model) in self.models.iter().filter(|(name, _)| *name != OFFLINE) {
            match model.build(name, self, &prices) {
                Ok(model) => registry.insert(name, model),
                Err(fault) => faults.push(fault),
            }
        }
        // An unknown default is a fault of its own, found by the check.
        let _ = registry.set_default(self.default_model());
        (registry, faults)
    }
}

/// Reads headers. Who writes something else in their place has written the secret there, so it is
/// not shown.
fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
    struct Table;
    impl<'de> Visitor<'de> for Table {
        type Value = Headers;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Headers, A::Error> {
            Headers::deserialize(MapAccessDeserializer::new(table))
        }

        fn visit_str<E: Error>(self, _: &str) -> Result<Headers, E> {
            Err(E::invalid_type(Unexpected::Other("a text"), &self))
        }
    }
    deserializer.deserialize_map(Table)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the check admits prices from 0 to a million dollars only"
)]
fn nano(usd: f64) -> u64 {
    (usd * 1e9).round() as u64
}
