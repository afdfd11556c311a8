//! Models: the rehearsal is always there, others as configured.

use super::Settings;
use cairn_boot::{Checks, Secret};
use cairn_model::openai::OpenAiConfig;
use cairn_model::{ModelRegistry, OpenAi, Recorded, Rehearsal};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The offline default's name.
pub const REHEARSAL: &str = "rehearsal";
/// The name of the model that `OPENAI_API_KEY` configures, and the default once it is there.
pub const OPENAI: &str = "openai";

/// The default model.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Its name; without one, `openai` if it is configured, else `rehearsal`.
    pub default: Option<String>,
    /// How long the rehearsal waits before each reply, so that a person can follow.
    #[serde(with = "cairn_boot::config::duration")]
    pub pace: Duration,
}

/// What a model's provider is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Any server with OpenAI's chat API.
    #[default]
    Openai,
    /// Replies from a file.
    Recorded,
}

/// A model.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderSettings {
    /// What it is.
    pub provider: Provider,
    /// Address up to and without `/chat/completions`.
    pub base_url: String,
    /// The key; local servers often need none.
    pub api_key: Secret,
    /// Its name at the server.
    pub model: String,
    /// Tokens that fit into one conversation.
    pub window_tokens: u64,
    /// Price of a million tokens sent, in US dollars.
    pub input_usd_per_million: f64,
    /// Price of a million tokens received, in US dollars.
    pub output_usd_per_million: f64,
    /// Allow the key to travel over plain HTTP to another machine.
    pub allow_insecure_http: bool,
    /// With `recorded`: the file of exchanges.
    pub path: Option<PathBuf>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            base_url: "https://api.openai.com/v1".to_owned(),
            api_key: Secret::default(),
            model: "gpt-5-mini".to_owned(),
            window_tokens: 128_000,
            input_usd_per_million: 0.0,
            output_usd_per_million: 0.0,
            allow_insecure_http: false,
            path: None,
        }
    }
}

impl ProviderSettings {
    fn openai(&self) -> OpenAiConfig {
        OpenAiConfig {
            api_key: (self.api_key.is_set()).then(|| self.api_key.expose().into()),
            window_tokens: self.window_tokens,
            input_nano_usd_per_million: nano(self.input_usd_per_million),
            output_nano_usd_per_million: nano(self.output_usd_per_million),
            allow_insecure_http: self.allow_insecure_http,
            ..OpenAiConfig::new(&self.base_url, &self.model)
        }
    }

    /// Adds the model to the registry; what is wrong with it as setting, problem, allowed.
    fn insert(&self, name: &str, registry: &mut ModelRegistry) -> Result<(), Fault> {
        let fault = |setting: &str, problem: String, allowed: &str| Fault {
            setting: format!("models.{name}{setting}"),
            problem,
            allowed: allowed.to_owned(),
        };
        match (self.provider, &self.path) {
            (Provider::Openai, _) => {
                let model = OpenAi::new(self.openai());
                let model = model.map_err(|failure| {
                    let setting = faulty(&failure.message);
                    fault(setting, format!("is wrong: {}", failure.message), "")
                })?;
                registry.insert(name, Arc::new(model));
            }
            (Provider::Recorded, None) => {
                let allowed = "a file of exchanges, one JSON object a line";
                return Err(fault(".path", "is missing".to_owned(), allowed));
            }
            (Provider::Recorded, Some(path)) => {
                let model = Recorded::from_file(path);
                let model = model.map_err(|e| fault(".path", e.message, ""))?;
                registry.insert(name, Arc::new(model));
            }
        }
        Ok(())
    }
}

/// The setting that a refusal of the model speaks of; without one, the model as a whole.
fn faulty(message: &str) -> &'static str {
    let speaks_of = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if speaks_of(&["URL", "plain HTTP"]) {
        ".base_url"
    } else if speaks_of(&["model's key", "model key"]) {
        ".api_key"
    } else if speaks_of(&["model name"]) {
        ".model"
    } else {
        ""
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
            None => REHEARSAL,
        }
    }

    pub(super) fn check_models(&self, checks: &mut Checks) {
        let minute = Duration::from_secs(60);
        checks.range("model.pace", self.model.pace, Duration::ZERO..=minute);
        let taken = self.models.contains_key(REHEARSAL);
        let problem = "is the name of the built-in rehearsal";
        checks.require(!taken, "models.rehearsal", problem, "any other name");
        for (name, model) in &self.models {
            for (field, price) in [
                ("input_usd_per_million", model.input_usd_per_million),
                ("output_usd_per_million", model.output_usd_per_million),
            ] {
                let setting = format!("models.{name}.{field}");
                checks.range(&setting, price, 0.0..=1_000_000.0);
            }
        }
        let (registry, faults) = self.build_registry();
        let has_faults = !faults.is_empty();
        for fault in faults {
            checks.require(false, &fault.setting, &fault.problem, &fault.allowed);
        }
        let known: Vec<&str> = registry.names().collect();
        let name = self.default_model();
        // A model that is configured wrongly has been told already.
        let is_known = known.contains(&name) || (has_faults && self.models.contains_key(name));
        let problem = format!("is {name:?}, which is no model here");
        checks.require(is_known, "model.default", &problem, &known.join(", "));
    }

    fn build_registry(&self) -> (ModelRegistry, Vec<Fault>) {
        let mut registry = ModelRegistry::new();
        registry.insert(REHEARSAL, Arc::new(Rehearsal::new(self.model.pace)));
        let named = self.models.iter().filter(|(name, _)| *name != REHEARSAL);
        let built = named.map(|(name, model)| model.insert(name, &mut registry));
        let faults: Vec<Fault> = built.filter_map(Result::err).collect();
        // An unknown default is a fault of its own, found by the check.
        let _ = registry.set_default(self.default_model());
        (registry, faults)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the check admits prices from 0 to a million dollars only"
)]
fn nano(usd: f64) -> u64 {
    (usd * 1e9).round() as u64
}
