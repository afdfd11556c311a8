//! The kinds of errors, in one table to gRPC codes.

use std::fmt;
use tonic::Code;

/// What a caller can do about an error: the short list that everything is sorted into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; its fields are named.
    InvalidArgument,
    /// It is not there, or not the caller's.
    NotFound,
    /// It is already there, and differs.
    AlreadyExists,
    /// The state does not admit the call; repeating it as it is will not help.
    FailedPrecondition,
    /// Somebody else was faster; read again and decide anew.
    Conflict,
    /// The caller is known, and may not.
    PermissionDenied,
    /// The caller is not known.
    Unauthenticated,
    /// A limit is reached, or there is no room.
    ResourceExhausted,
    /// A cursor or an offset lies outside what there is; a message is larger than admitted.
    OutOfRange,
    /// It cannot be reached now. Unless the reason says that nothing was sent, the call may
    /// have been carried out.
    Unavailable,
    /// Time ran out. The call may have been carried out.
    DeadlineExceeded,
    /// The caller, or the server on its way down, gave the call up.
    Cancelled,
    /// There is no such method, or it is switched off.
    Unimplemented,
    /// Stored data is lost or damaged.
    DataLoss,
    /// Something broke that the caller can do nothing about.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::Conflict,
        Self::PermissionDenied,
        Self::Unauthenticated,
        Self::ResourceExhausted,
        Self::OutOfRange,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Unimplemented,
        Self::DataLoss,
        Self::Internal,
    ];

    /// The table: gRPC code, general reason, name for people.
    const fn row(self) -> (Code, &'static str, &'static str) {
        match self {
            Self::InvalidArgument => (
                Code::InvalidArgument,
                "INVALID_ARGUMENT",
                "invalid argument",
            ),
            Self::NotFound => (Code::NotFound, "NOT_FOUND", "not found"),
            Self::AlreadyExists => (Code::AlreadyExists, "ALREADY_EXISTS", "already exists"),
            Self::FailedPrecondition => (
                Code::FailedPrecondition,
                "FAILED_PRECONDITION",
                "failed precondition",
            ),
            Self::Conflict => (Code::Aborted, "CONFLICT", "conflict"),
            Self::PermissionDenied => (
                Code::PermissionDenied,
                "PERMISSION_DENIED",
                "permission denied",
            ),
            Self::Unauthenticated => (Code::Unauthenticated, "UNAUTHENTICATED", "unauthenticated"),
            Self::ResourceExhausted => (
                Code::ResourceExhausted,
                "RESOURCE_EXHAUSTED",
                "resource exhausted",
            ),
            Self::OutOfRange => (Code::OutOfRange, "OUT_OF_RANGE", "out of range"),
            Self::Unavailable => (Code::Unavailable, "UNAVAILABLE", "unavailable"),
            Self::DeadlineExceeded => (
                Code::DeadlineExceeded,
                "DEADLINE_EXCEEDED",
                "deadline exceeded",
            ),
            Self::Cancelled => (Code::Cancelled, "CANCELLED", "cancelled"),
            Self::Unimplemented => (Code::Unimplemented, "UNIMPLEMENTED", "unimplemented"),
            Self::DataLoss => (Code::DataLoss, "DATA_LOSS", "data loss"),
            Self::Internal => (Code::Internal, "INTERNAL", "internal error"),
        }
    }

    /// The gRPC code.
    pub const fn code(self) -> Code {
        self.row().0
    }

    /// The reason of an error that has no more precise one.
    pub const fn reason(self) -> &'static str {
        self.row().1
    }

    /// The name for people.
    pub const fn name(self) -> &'static str {
        self.row().2
    }

    /// The kind of a gRPC code. `Ok` and `Unknown` are nothing a server here says on purpose,
    /// and count as internal errors.
    pub fn from_code(code: Code) -> Self {
        let found = Self::ALL.into_iter().find(|kind| kind.code() == code);
        found.unwrap_or(Self::Internal)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_but_ok_and_unknown_has_exactly_one_kind() {
        for number in 0..=16 {
            let code = Code::from_i32(number);
            let kinds: Vec<_> = ErrorKind::ALL.iter().filter(|k| k.code() == code).collect();
            let want = usize::from(!matches!(code, Code::Ok | Code::Unknown));
            assert_eq!(kinds.len(), want, "{code:?}");
        }
    }

    #[test]
    fn a_kind_survives_its_code() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_code(kind.code()), kind);
            assert!(super::super::is_reason(kind.reason()));
        }
        assert_eq!(ErrorKind::from_code(Code::Unknown), ErrorKind::Internal);
    }
}
