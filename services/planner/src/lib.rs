//! The planner: from a goal to a plan, with a language model and a parser. It keeps nothing.
//!
//! | module | does |
//! |---|---|
//! | [`parser`] | reads plans out of texts: [`PlanParser`], JSON as the reference, and programs |
//! | `plan` | asks the model, and once more if its plan has a fault |
//! | `messages` | what the model is told |
//! | `grpc` | the service |

mod config;
mod grpc;
mod messages;
pub mod parser;
mod plan;

pub use config::Config;
pub use grpc::Planner;
pub use parser::{JsonPlanParser, PlanParseError, PlanParser, ProgramPlanParser, read_plan};

use cairn_model::ModelRegistry;
use cairn_proto::planner::planner_service_server::PlannerServiceServer;
use std::sync::Arc;

/// What the planner needs of others.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The models that plans may be asked of. With none, planning fails with `missing provider`.
    pub models: Arc<ModelRegistry>,
    /// Reads the models' answers; [`JsonPlanParser::lenient`] fits the planning prompt.
    pub parser: Arc<dyn PlanParser>,
}

impl Deps {
    /// These models with the reference parser.
    pub fn new(models: Arc<ModelRegistry>) -> Self {
        Self {
            models,
            parser: Arc::new(JsonPlanParser::lenient()),
        }
    }
}

/// Builds the service, for an internal listener.
pub fn build(config: Config, deps: Deps) -> PlannerServiceServer<Planner> {
    PlannerServiceServer::new(Planner::new(config, deps.models, deps.parser))
}
