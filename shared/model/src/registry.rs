//! The models of a process, by name.

use crate::Model;
use cairn_engine::failure::{Failure, FailureKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Named models, one of them the default: the first that was inserted, unless set otherwise.
#[derive(Debug, Clone, Default)]
pub struct ModelRegistry {
    models: BTreeMap<String, Arc<dyn Model>>,
    default: String,
}

impl ModelRegistry {
    /// A registry without models.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a model, in the place of the one that had this name.
    pub fn insert(&mut self, name: impl Into<String>, model: Arc<dyn Model>) {
        let name = name.into();
        if self.models.is_empty() {
            self.default.clone_from(&name);
        }
        self.models.insert(name, model);
    }

    /// Makes a model the default.
    ///
    /// # Errors
    /// As [`ModelRegistry::get`].
    pub fn set_default(&mut self, name: &str) -> Result<(), Failure> {
        self.get(name)?;
        if !name.is_empty() {
            name.clone_into(&mut self.default);
        }
        Ok(())
    }

    /// The name of the default model; none in an empty registry.
    pub fn default_name(&self) -> Option<&str> {
        (!self.models.is_empty()).then_some(self.default.as_str())
    }

    /// The names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The model of this name; the empty name is the default.
    ///
    /// # Errors
    /// A failure of kind Config: nothing is registered, or not this name; then it lists the names
    /// that are.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Model>, Failure> {
        if self.models.is_empty() {
            return Err(Failure::missing("provider"));
        }
        let name = if name.is_empty() { &self.default } else { name };
        let model = self.models.get(name).cloned();
        model.ok_or_else(|| {
            let known: Vec<_> = self.names().collect();
            Failure::new(
                FailureKind::Config,
                "unknown_model",
                format!("unknown model {name:?}, known are: {}", known.join(", ")),
            )
        })
    }

    /// The model of this name for a run, which may have a budget of money.
    ///
    /// # Errors
    /// As [`ModelRegistry::get`]. With such a budget, a failure of kind Config with the reason
    /// `no_price` for a model without a known price: it would never use up the budget.
    pub fn get_within(&self, name: &str, limits_cost: bool) -> Result<Arc<dyn Model>, Failure> {
        let model = self.get(name)?;
        if !limits_cost || model.describe().prices.is_some() {
            return Ok(model);
        }
        let name = if name.is_empty() { &self.default } else { name };
        let message = format!(
            "no price of the model {name} is known, so max_cost would never stop the run; set \
             models.{name}.input_usd_per_million and models.{name}.output_usd_per_million, or leave \
             max_cost out"
        );
        Err(Failure::new(FailureKind::Config, "no_price", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenAi, OpenAiConfig, Recorded, ServerConfig};

    fn model(name: &str) -> Arc<dyn Model> {
        Arc::new(Recorded::parse(name, r#"{"reply":{"text":"hi"}}"#).expect("a model"))
    }

    #[test]
    fn an_empty_registry_misses_a_provider() {
        let registry = ModelRegistry::new();
        for name in ["", "fast"] {
            let failure = registry.get(name).expect_err("nothing is registered");
            assert_eq!(failure, Failure::missing("provider"));
            assert_eq!(failure.kind, FailureKind::Config);
        }
        assert_eq!(registry.default_name(), None);
    }

    #[test]
    fn an_unknown_name_is_reported_the_known_ones() {
        let mut registry = ModelRegistry::new();
        registry.insert("slow", model("slow"));
        registry.insert("fast", model("fast"));
        let failure = registry.get("faster").expect_err("unknown");
        assert_eq!(failure.kind, FailureKind::Config);
        assert_eq!(
            failure.message,
            "unknown model \"faster\", known are: fast, slow"
        );
        assert!(registry.set_default("faster").is_err());
        assert_eq!(registry.default_name(), Some("slow"));
    }

    #[test]
    fn a_budget_of_money_wants_a_model_with_a_known_price() {
        let mut registry = ModelRegistry::new();
        registry.insert("priced", model("priced"));
        let config = OpenAiConfig::from(ServerConfig::new("http://127.0.0.1:9/v1", "mine"));
        let unpriced = OpenAi::new(config).expect("a model");
        registry.insert("local", Arc::new(unpriced));
        for (name, has_budget, is_taken) in [
            ("local", false, true),
            ("local", true, false),
            ("priced", true, true),
            ("", true, true),
        ] {
            let found = registry.get_within(name, has_budget);
            assert_eq!(found.is_ok(), is_taken, "{name}");
        }
        registry.set_default("local").expect("known");
        let failure = registry.get_within("", true).expect_err("no price");
        assert_eq!(failure.kind, FailureKind::Config);
        assert_eq!(failure.reason, "no_price");
        assert_eq!(
            failure.message,
            "no price of the model local is known, so max_cost would never stop the run; set \
             models.local.input_usd_per_million and models.local.output_usd_per_million, or leave \
             max_cost out"
        );
        let unknown = registry.get_within("none", true).expect_err("unknown");
        assert_eq!(unknown.reason, "unknown_model");
    }

    #[test]
    fn the_empty_name_is_the_default() {
        let mut registry = ModelRegistry::new();
        registry.insert("slow", model("slow"));
        registry.insert("fast", model("fast"));
        let name = |registry: &ModelRegistry| registry.get("").expect("a model").describe().name;
        assert_eq!(name(&registry), "slow");
        registry.set_default("fast").expect("known");
        assert_eq!(name(&registry), "fast");
        registry.insert("fast", model("other"));
        assert_eq!(name(&registry), "other");
    }
}
