//! The variables of the environment that OpenTelemetry defines for all programs.
//!
//! They may be meant for other programs, so that none of them is a fault: one that Cairn cannot follow is
//! passed over, with a warning. The exporter itself reads `OTEL_EXPORTER_OTLP_HEADERS` and
//! `OTEL_EXPORTER_OTLP_COMPRESSION`, and the resource `OTEL_RESOURCE_ATTRIBUTES`.

use super::config::{self, OFF};
use crate::config::Environment;
use std::time::Duration;

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
/// Each is for traces, or for all that is exported.
const ENDPOINT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const PROTOCOL: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const TIMEOUT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];

/// What the variables ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Standard {
    /// A variable, and what it makes of the setting `telemetry.otlp`.
    pub collector: Option<(&'static str, String)>,
    /// The name of this process for those who read its traces.
    pub(super) service_name: Option<String>,
    /// How long a message to the collector may take.
    pub(super) timeout: Option<Duration>,
    /// The part of the traces that begin here and are recorded, 0 to 1.
    pub(super) ratio: f64,
    /// Variables that are passed over.
    pub(super) ignored: Vec<Ignored>,
}

/// A variable that Cairn cannot follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ignored {
    pub(super) variable: &'static str,
    /// Without the value where it may be a secret.
    pub(super) problem: String,
    pub(super) allowed: &'static str,
    /// Without it no collector is known.
    pub(super) is_collector: bool,
}

impl Default for Standard {
    fn default() -> Self {
        Self {
            collector: None,
            service_name: None,
            timeout: None,
            ratio: 1.0,
            ignored: Vec::new(),
        }
    }
}

impl Standard {
    /// Reads the variables. An empty one is one that is not set.
    pub fn read(environment: &Environment) -> Self {
        let mut it = Self::default();
        let variables = Variables(environment);
        match variables.collector() {
            Ok(collector) => it.collector = collector,
            Err(ignored) => it.ignored.push(ignored),
        }
        it.service_name = variables.get(SERVICE_NAME).map(str::to_owned);
        match variables.timeout() {
            Ok(timeout) => it.timeout = timeout,
            Err(ignored) => it.ignored.push(ignored),
        }
        match variables.ratio() {
            Ok(ratio) => it.ratio = ratio,
            Err(ignored) => it.ignored.push(ignored),
        }
        it.ignored.extend(variables.odd_switch());
        it
    }
}

struct Variables<'e>(&'e Environment);

impl<'e> Variables<'e> {
    fn get(&self, name: &str) -> Option<&'e str> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    fn first(&self, names: [&'static str; 2]) -> Option<(&'static str, &'e str)> {
        let mut set = names
            .into_iter()
            .filter_map(|name| Some((name, self.get(name)?)));
        set.next()
    }

    fn collector(&self) -> Result<Option<(&'static str, String)>, Ignored> {
        let off = |name| Ok(Some((name, OFF.to_owned())));
        if self.get(DISABLED).is_some_and(is_true) {
            return off(DISABLED);
        }
        match self.get(EXPORTER) {
            None | Some("otlp") => {}
            Some("none") => return off(EXPORTER),
            Some(other) => return Err(collector(EXPORTER, format!("is {other:?}"), "otlp, none")),
        }
        if self.get(SAMPLER) == Some("always_off") {
            return off(SAMPLER);
        }
        let Some((name, endpoint)) = self.first(ENDPOINT) else {
            return Ok(None);
        };
        if let Some((name, protocol)) = self.first(PROTOCOL)
            && protocol != "grpc"
        {
            return Err(collector(name, format!("is {protocol:?}"), "grpc"));
        }
        match config::endpoint(endpoint) {
            Ok(_) => Ok(Some((name, endpoint.to_owned()))),
            Err(problem) => Err(collector(name, problem.to_owned(), config::ALLOWED)),
        }
    }

    fn timeout(&self) -> Result<Option<Duration>, Ignored> {
        let Some((name, text)) = self.first(TIMEOUT) else {
            return Ok(None);
        };
        match text.parse::<u64>() {
            Ok(ms) if ms > 0 => Ok(Some(Duration::from_millis(ms))),
            _ => Err(passed_over(name, text, "a number of milliseconds")),
        }
    }

    /// The caller's decision counts more, whichever of the two kinds a sampler is of.
    fn ratio(&self) -> Result<f64, Ignored> {
        match self.get(SAMPLER) {
            None | Some("always_on" | "parentbased_always_on" | "always_off") => Ok(1.0),
            Some("parentbased_always_off") => Ok(0.0),
            Some("traceidratio" | "parentbased_traceidratio") => {
                let text = self.get(SAMPLER_ARG).unwrap_or("1");
                let ratio = text
                    .parse::<f64>()
                    .ok()
                    .filter(|it| (0.0..=1.0).contains(it));
                ratio.ok_or_else(|| passed_over(SAMPLER_ARG, text, "a number from 0 to 1"))
            }
            Some(other) => Err(passed_over(
                SAMPLER,
                other,
                "always_on, always_off, traceidratio, and these with parentbased_ before them",
            )),
        }
    }

    fn odd_switch(&self) -> Option<Ignored> {
        let text = self.get(DISABLED)?;
        let is_known = is_true(text) || text.eq_ignore_ascii_case("false");
        (!is_known).then(|| passed_over(DISABLED, text, "true, false"))
    }
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

fn passed_over(variable: &'static str, text: &str, allowed: &'static str) -> Ignored {
    Ignored {
        variable,
        problem: format!("is {text:?}"),
        allowed,
        is_collector: false,
    }
}

fn collector(variable: &'static str, problem: String, allowed: &'static str) -> Ignored {
    Ignored {
        variable,
        problem,
        allowed,
        is_collector: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Standard {
        Standard::read(&Environment::of(variables.iter().copied()))
    }

    const HERE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://here:4317");

    #[test]
    fn the_collector_is_that_of_traces_or_that_of_all() {
        let both = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://there");
        type Variable = (&'static str, &'static str);
        let table: [(&[Variable], Option<Variable>); 7] = [
            (&[], None),
            (&[HERE], Some(HERE)),
            (&[HERE, both], Some(both)),
            (
                &[HERE, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")],
                Some(HERE),
            ),
            (
                &[HERE, ("OTEL_SDK_DISABLED", "True")],
                Some(("OTEL_SDK_DISABLED", "off")),
            ),
            (
                &[HERE, ("OTEL_TRACES_EXPORTER", "none")],
                Some(("OTEL_TRACES_EXPORTER", "off")),
            ),
            (
                &[HERE, ("OTEL_TRACES_SAMPLER", "always_off")],
                Some(("OTEL_TRACES_SAMPLER", "off")),
            ),
        ];
        for (variables, expected) in table {
            let read = read(variables);
            let collector = read
                .collector
                .as_ref()
                .map(|(name, value)| (*name, &**value));
            assert_eq!(collector, expected, "{variables:?}");
            assert!(read.ignored.is_empty(), "{variables:?}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_passed_over_by_its_name() {
        let table: [(&[(&str, &str)], &str); 8] = [
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "canary:4317")], HERE.0),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://canary@x")],
                HERE.0,
            ),
            (
                &[HERE, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                "OTEL_EXPORTER_OTLP_PROTOCOL",
            ),
            (
                &[HERE, ("OTEL_TRACES_EXPORTER", "console")],
                "OTEL_TRACES_EXPORTER",
            ),
            (
                &[("OTEL_EXPORTER_OTLP_TIMEOUT", "0")],
                "OTEL_EXPORTER_OTLP_TIMEOUT",
            ),
            (&[("OTEL_TRACES_SAMPLER", "xray")], "OTEL_TRACES_SAMPLER"),
            (
                &[
                    ("OTEL_TRACES_SAMPLER", "traceidratio"),
                    ("OTEL_TRACES_SAMPLER_ARG", "2"),
                ],
                "OTEL_TRACES_SAMPLER_ARG",
            ),
            (&[("OTEL_SDK_DISABLED", "1")], "OTEL_SDK_DISABLED"),
        ];
        for (variables, named) in table {
            let read = read(variables);
            let names: Vec<_> = read.ignored.iter().map(|it| it.variable).collect();
            assert_eq!(names, [named], "{variables:?}");
            assert!(!format!("{:?}", read.ignored).contains("canary"));
            assert_eq!((read.timeout, read.ratio), (None, 1.0));
        }
    }

    #[test]
    fn samplers_are_parts_of_the_traces_that_begin_here() {
        let ratio = |sampler, argument| {
            let sampler = ("OTEL_TRACES_SAMPLER", sampler);
            read(&[sampler, ("OTEL_TRACES_SAMPLER_ARG", argument)]).ratio
        };
        assert_eq!(ratio("parentbased_always_off", ""), 0.0);
        assert_eq!(ratio("parentbased_traceidratio", "0.25"), 0.25);
        assert_eq!(ratio("traceidratio", ""), 1.0);
        assert_eq!(ratio("always_on", "0"), 1.0);
        let timeout = read(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")]).timeout;
        assert_eq!(timeout, Some(Duration::from_millis(1_500)));
    }
}
