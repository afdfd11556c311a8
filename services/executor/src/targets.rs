//! Where the calls of an attempt go: to the tools service, or to the attempt's own model.

use crate::asker::Asker;
use crate::code_generation;
use crate::queue::Sender;
use crate::spans;
use crate::tools::{Call, Ended, Tools};
use cairn_engine::decide::CODE_GENERATION;
use cairn_engine::event::CallRef;
use cairn_proto::executor::PermittedCall;
use cairn_rpc::RpcError;

/// What carries out the calls of an attempt.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub(crate) tools: &'a Tools,
    /// None in a step of one call that asks no model.
    pub(crate) asker: Option<&'a Asker<'a>>,
}

impl Targets<'_> {
    /// Makes a call and waits for its result. Its progress and the parts of a long result go to `reports`.
    ///
    /// # Errors
    /// As [`Tools::call`].
    pub(crate) async fn call(
        self,
        call: Call,
        reports: &Sender,
    ) -> (CallRef, Result<Ended, RpcError>) {
        match self.asker.filter(|_| call.name == CODE_GENERATION) {
            Some(asker) => {
                spans::before_call(call.at);
                // In a place of its own: most calls ask no model.
                let work = Box::pin(code_generation::carry_out(asker, &call));
                let ended = self.tools.carried_out(call.at, work.await, reports).await;
                spans::after_call(call.at);
                (call.at, Ok(ended))
            }
            None => self.tools.call(call, reports).await,
        }
    }
}

/// The executor carries the call out by asking a model.
pub(crate) fn asks_model(call: &PermittedCall) -> bool {
    let call = call.tool_call.as_ref();
    call.is_some_and(|call| call.name == CODE_GENERATION)
}
