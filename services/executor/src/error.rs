//! Why an attempt is no longer carried out here.

use cairn_proto::convert::ConvertError;
use cairn_rpc::RpcError;

/// Ends the work on an attempt. That a step failed is no `Stop` but a report to the owner.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The attempt has ended over this stream: the owner said so, or closed the stream.
    Ended,
    /// The way to the owner broke: nobody is left to be told anything.
    Gone,
    /// The attempt cannot go on over this stream, which ends with this error; the owner may
    /// continue it over another one.
    Broken(RpcError),
}

/// A message of the owner that makes no sense, or is for a newer executor.
pub(crate) fn invalid(error: &ConvertError) -> RpcError {
    if error.is_newer {
        let message = format!("this executor is too old for the attempt: {error}");
        return RpcError::precondition(message).reason("NEWER_VERSION");
    }
    RpcError::invalid(&error.field, &error.problem)
}

impl From<RpcError> for Stop {
    fn from(error: RpcError) -> Self {
        Self::Broken(error)
    }
}
