//! What an answer says about the strain on whoever gave it.

use http::StatusCode;
use sluicegate_engine::gate::Ending;

/// What a rule that protects a service learns from an answer with this status.
///
/// That a server is overloaded, or that nobody behind it answers, is a sign of strain. Any other answer, were it to a
/// request that makes no sense or by a fault in the program, took the time it took.
///
/// ```
/// use http::StatusCode;
/// use sluicegate_engine::gate::Ending;
/// use sluicegate_http::ending_of;
///
/// assert_eq!(ending_of(StatusCode::OK), Ending::Well);
/// assert_eq!(ending_of(StatusCode::INTERNAL_SERVER_ERROR), Ending::Well);
/// assert_eq!(ending_of(StatusCode::SERVICE_UNAVAILABLE), Ending::Failed);
/// ```
pub const fn ending_of(status: StatusCode) -> Ending {
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Ending::Failed,
        _ => Ending::Well,
    }
}
