//! Maps a status code to a completion class for adaptive limits.

use http::StatusCode;
use sluicegate_engine::overload::Completion;

/// Returns the completion class of a response, as seen by overload protection.
///
/// 502, 503 and 504 mean that a server is overloaded or unreachable and count as failures. Any other
/// response, including client errors and 500, counts as a normal completion with its duration.
///
/// ```
/// use http::StatusCode;
/// use sluicegate_engine::overload::Completion;
/// use sluicegate_http_adapter::classify_status;
///
/// assert_eq!(classify_status(StatusCode::OK), Completion::Ok);
/// assert_eq!(classify_status(StatusCode::INTERNAL_SERVER_ERROR), Completion::Ok);
/// assert_eq!(classify_status(StatusCode::SERVICE_UNAVAILABLE), Completion::Failed);
/// ```
pub const fn classify_status(status: StatusCode) -> Completion {
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Completion::Failed,
        _ => Completion::Ok,
    }
}
