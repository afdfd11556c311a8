//! What may be answered to a request with a fault.

use super::faults::Must;
use super::raw::Answer;
use cairn_rpc::RpcError;
use cairn_rpc::text::is_hidden;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, MethodDescriptor};
use tonic::Code;

/// What an error may say; a conflict only between services.
const CODES: [Code; 8] = [
    Code::InvalidArgument,
    Code::NotFound,
    Code::AlreadyExists,
    Code::FailedPrecondition,
    Code::OutOfRange,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::Aborted,
];
/// Statuses travel in headers.
const LONGEST_MESSAGE: usize = 1100;

/// What is wrong with an answer, if anything.
pub(crate) fn wrong(
    method: &MethodDescriptor,
    must: &Must,
    is_public: bool,
    answer: &Answer,
) -> Option<String> {
    match answer {
        Answer::Late => Some("no answer in time".to_owned()),
        Answer::Message(_) | Answer::Open if *must != Must::Answer => {
            Some(format!("accepted: {answer:.200?}"))
        }
        Answer::Open | Answer::Message(None) => None,
        Answer::Message(Some(bytes)) => DynamicMessage::decode(method.output(), bytes.clone())
            .err()
            .map(|error| format!("an answer that cannot be read: {error}")),
        Answer::Refused(status) => {
            let mut faults = of_status(&method.input(), is_public, status);
            if let Must::Name(field) = must
                && !names(status, field)
                && !choice(&method.input(), field).is_some_and(|choice| names(status, &choice))
            {
                faults.push(format!("does not name {field}"));
            }
            (!faults.is_empty()).then(|| {
                let (code, message) = (status.code(), status.message());
                format!("{}: {code:?} {message:?}", faults.join(", "))
            })
        }
    }
}

/// Whether it says that this field is wrong, or a part of it, or what it is a part of: of a plan it
/// is said as a whole which step is wrong, and in what.
fn names(status: &tonic::Status, field: &str) -> bool {
    let error = RpcError::from_status(status);
    error.violations().iter().any(|violation| {
        let parts = violation.field.split('.').map(|part| part.split('['));
        let named: Vec<_> = parts.filter_map(|mut part| part.next()).collect();
        let named = named.join(".");
        let is_part = |part: &str, of: &str| part.starts_with(&format!("{of}."));
        named == field || is_part(&named, field) || is_part(field, &named)
    })
}

fn of_status(request: &MessageDescriptor, is_public: bool, status: &tonic::Status) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    let (code, message) = (status.code(), status.message());
    // An owner that knows of more transitions than there are is believed.
    let is_internal = [Code::Aborted, Code::DataLoss].contains(&code);
    let allowed = (CODES.contains(&code) || is_internal) && !(is_public && is_internal);
    check(allowed, "a code that is not allowed");
    check(!message.is_empty(), "says nothing");
    check(
        !message.starts_with(char::is_uppercase),
        "begins with a capital",
    );
    check(!message.ends_with('.'), "ends with a full stop");
    check(!message.contains(is_hidden), "shows hidden characters");
    check(!message.contains("internal error"), "is an internal error");
    check(!message.contains("panicked"), "tells of a panic");
    check(message.len() <= LONGEST_MESSAGE, "is too long");
    let error = RpcError::from_status(status);
    check(!error.reason_name().is_empty(), "has no reason");
    if code == Code::InvalidArgument && error.reason_name() != "MALFORMED_MESSAGE" {
        check(!error.violations().is_empty(), "names no field");
        for violation in error.violations() {
            check(!violation.problem.is_empty(), "does not say what is wrong");
            let known = exists(request, &violation.field)
                || !is_public && exists_within(request, &violation.field, 0);
            check(
                known,
                &format!("names {:?}, which is no field", violation.field),
            );
        }
    }
    faults
}

/// Whether a path such as `run.plan.steps[3].tool` leads to a field of the request, or to a choice
/// of fields.
fn exists(request: &MessageDescriptor, path: &str) -> bool {
    let mut message = Some(request.clone());
    for part in path.split('.') {
        let name = part.split('[').next().unwrap_or_default();
        let Some(outer) = message else {
            return false;
        };
        let Some(field) = outer.get_field_by_name(name) else {
            return outer.oneofs().any(|choice| choice.name() == name);
        };
        message = match field.kind() {
            Kind::Message(inner) => Some(inner),
            _ => None,
        };
    }
    true
}

/// The path of the choice that the field of a path belongs to.
fn choice(request: &MessageDescriptor, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('.').collect();
    let last = parts.pop()?;
    let mut message = request.clone();
    for part in &parts {
        let name = part.split('[').next()?;
        message = match message.get_field_by_name(name)?.kind() {
            Kind::Message(inner) => inner,
            _ => return None,
        };
    }
    let field = message.get_field_by_name(last)?;
    let choice = field.containing_oneof()?;
    parts.push(choice.name());
    Some(parts.join("."))
}

/// Whether a path leads to a field of a message inside the request: services that only Cairn calls
/// name a field from the part that they were looking at.
fn exists_within(message: &MessageDescriptor, path: &str, depth: usize) -> bool {
    message.fields().any(|field| match field.kind() {
        Kind::Message(inner) if depth < 4 => {
            exists(&inner, path) || exists_within(&inner, path, depth + 1)
        }
        _ => false,
    })
}
