//! Eight steps of 100 ms each that do not depend on each other, beside the same as a chain and the bare
//! sum. From the request to the end of the run, as its client sees it.

use crate::percentile;
use crate::support::{
    check_completed, client, model_step, node, parts, start, tool_step, watch_to_end,
};
use cairn_model::ModelRegistry;
use cairn_model::recorded::Recorded;
use cairn_proto::event as wire;
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: usize = 8;
const TIME: Duration = Duration::from_millis(100);
const ROUNDS: usize = 10;

/// A tool that takes its time.
struct Slow(ToolSpec);

#[async_trait::async_trait]
impl Tool for Slow {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        tokio::time::sleep(TIME).await;
        Ok(Output::text("done"))
    }
}

fn tool(name: &str, effect: Effect) -> Arc<dyn Tool> {
    let mut spec = ToolSpec::new(name, "takes time", serde_json::json!({"type": "object"}));
    spec.effect = effect;
    Arc::new(Slow(spec))
}

fn models() -> ModelRegistry {
    let millis = TIME.as_millis();
    let end = r#"[{"name": "step", "arguments": {"complete": true, "summary": "done"}}]"#;
    let text = format!(
        r#"{{"match": {{"step": ""}}, "reply": {{"delay_ms": {millis}, "tool_calls": {end}}}}}"#
    );
    let mut models = ModelRegistry::new();
    let recorded = Recorded::parse("recorded", &text).expect("a recording");
    models.insert("recorded", Arc::new(recorded));
    models
}

pub(crate) async fn measure() {
    let sum = TIME.as_secs_f64() * 1e3 * STEPS as f64;
    println!(
        "{:<34} {:>10} {:>10} {:>10}",
        "8 steps of 100 ms", "p50", "max", "bare sum"
    );
    let graph = wire::Order::Graph;
    for (name, order, step) in [
        ("graph, pure calls", graph, tool_step("slow")),
        (
            "graph, calls with side effects",
            graph,
            tool_step("slow_send"),
        ),
        ("graph, for the model", graph, model_step("think")),
        ("chain, pure calls", wire::Order::Chain, tool_step("slow")),
    ] {
        let times = times(order, &step).await;
        let [p50, max] = [50, 100].map(|percent| percentile(&times, percent));
        println!("{name:<34} {p50:>7.1} ms {max:>7.1} ms {sum:>7.0} ms");
    }
}

async fn times(order: wire::Order, step: &wire::PlanStep) -> Vec<Duration> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut parts = parts(folder.path(), models());
    parts.more_tools.push(tool("slow", Effect::Pure));
    parts.more_tools.push(tool("slow_send", Effect::Effectful));
    let node = node(parts).await;
    let mut client = client(&node);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let run = wire::StartRun {
            plan: Some(wire::Plan {
                order: order.into(),
                steps: vec![step.clone(); STEPS],
            }),
            ..wire::StartRun::default()
        };
        let began = Instant::now();
        let session = start(&mut client, &format!("r-{round}"), run).await;
        let events = watch_to_end(&mut client, &session, 0).await;
        times.push(began.elapsed());
        check_completed(&events);
    }
    node.drain().await;
    times
}
