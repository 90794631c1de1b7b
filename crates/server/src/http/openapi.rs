//! OpenAPI document: one operation per route and method, with the schemas of bodies and responses.
//!
//! Paths and methods come from the [route table](super::route), request bodies from the
//! [table of fields](decode::BodyField), responses from the types in [`super::render`], and status codes from the
//! [kinds of errors](ApiErrorKind).

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sluicegate_http_adapter::api::openapi::{self, OpenApi, Operation};
use sluicegate_http_adapter::api::{NoExtensions, ProblemKind as _};
use utoipa::ToSchema;

use super::decode::{self, BodyKind};
use super::problem::ApiErrorKind;
use super::render::{DecisionView, DecisionsView, PermitView, RenewedView, ReservationView, SettledView};
use super::route::{ANY, ApiRoute, ROUTES};
use crate::rls;

const DESCRIPTION: &str = "\
Rate limit decisions for proxies and programs in any language. The status of a decision is always 200, whether the \
request is admitted or refused. An invalid call returns a problem document (RFC 9457) that states the error and its \
location, and consumes nothing.";

const CHECK: &str = "\
Permits of concurrency limits are released with the response, and an estimated cost is final. To hold permits or settle \
costs, use `/v1/permits` and `/v1/reserve`. In a list, permits count until all checks of the call are decided.

Refunds are exact for windows. A token bucket refunds tokens only if no other request has used it in the meantime.";

const RESERVE: &str = "\
Decides with `cost` as the estimate and holds the reservation until it is settled. If it is not settled in time, the \
reserved cost stays consumed.";

const SETTLE: &str = "\
Rules with a fixed cost are settled to that cost times `actual`, rules with an estimate to `actual` itself. Windows, and \
rules with an estimate, are settled exactly. A token bucket of a rule with a fixed cost refunds the excess only if no \
other request has used it since.";

const ACQUIRE: &str = "\
Holds the permits of concurrency limits until they are released or expire. With `wait`, the call waits in the queue of \
the rule; a client that disconnects leaves the queue.";

const AUTH: &str = "\
Decides the request that a trusted proxy describes in headers; all headers of the call count as headers of that request. \
The status is the decision: any 2xx admits the request. If a rule has a queue, the response waits. The proxy does not \
report the end of a request: permits are released with the response, so a concurrency limit only counts permits held \
elsewhere at that moment, and an estimated cost is final. A rule may set a refusal status other than 429; a 2xx status \
becomes 429.

A proxy must clear the headers it does not set: with nginx `proxy_set_header X-Forwarded-Method \"\"; proxy_set_header \
X-Forwarded-Uri \"\"; proxy_set_header X-Original-URL \"\";`, with Traefik and Caddy the `X-Original-*` headers. A call \
that mixes header styles is refused.";

const JSON: &str = "\
For clients of envoyproxy/ratelimit without gRPC: the same messages and responses in JSON. The status is the decision.";

/// Id in examples.
const ID: &str = "5f0c6a1f0e7d4b8a9c3e2d1f00112233";

/// Builds the document.
pub(super) fn document() -> String {
    let mut api = OpenApi::default();
    api.problem_schema::<NoExtensions>();
    if let Some(problem) = api.schema_mut("Problem") {
        problem["description"] = json!("A problem document (RFC 9457) for an invalid call. Nothing was consumed.");
        problem["properties"]["type"]["enum"] = ApiErrorKind::ALL.iter().map(|kind| kind.describe().1).collect();
    }
    for (path, methods) in ROUTES {
        let methods = if methods == ANY { "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" } else { methods };
        let route = ApiRoute::parse(path).ok();
        for method in methods.split(", ").filter_map(|method| method.parse::<Method>().ok()) {
            // HEAD and OPTIONS are implied, except for forward auth.
            if route == Some(ApiRoute::Auth) || ![Method::HEAD, Method::OPTIONS].contains(&method) {
                let operation = operation(&mut api, route, &method);
                api.add_operation(path, &method, operation);
            }
        }
    }
    let head = json!({
        "info": {
            "title": "Sluicegate decision API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": DESCRIPTION,
        },
        "security": [{}, { "secret": [] }, { "own_header": [] }],
        "tags": [{ "name": "Decisions" }, { "name": "Forward auth" }, { "name": "Pages" }],
    });
    let schemes = json!({
        "secret": {
            "type": "http",
            "scheme": "bearer",
            "description": "The secret in `secret_file`, if one is configured.",
        },
        "own_header": {
            "type": "apiKey",
            "in": "header",
            "name": "X-Sluicegate-Secret",
            "description": "The same secret, if `Authorization` is used for something else. In forward auth, rules then \
                see the client's `Authorization`.",
        },
    });
    api.finish(head, &schemes)
}

/// An operation. Without a route, it is that of the rate limit service.
fn operation(api: &mut OpenApi, route: Option<ApiRoute<'_>>, method: &Method) -> Operation {
    let ok = StatusCode::OK;
    let decision = |id: &str, summary: &str| Operation::new(id, "Decisions", summary);
    let page = |id: &str, summary: &str| Operation::new(id, "Pages", summary);
    let with_body = [ApiErrorKind::Invalid, ApiErrorKind::TooLarge, ApiErrorKind::ContentType];
    let (operation, mut problems) = match route {
        Some(ApiRoute::Check) => {
            let request = [body_schema(api, BodyKind::ListItem), body_schema(api, BodyKind::Check)];
            let response = [api.schema::<DecisionView<'_>>(), api.schema::<DecisionsView<'_>>()];
            let example = json!({ "service": "shop", "attributes": { "account": "alice" }, "cost": 1 });
            let operation = decision("check", "Check one request or several")
                .with("description", CHECK)
                .body(true, json!({ "schema": { "oneOf": request }, "example": example }))
                .response("200", json_response("The decision.", json!({ "oneOf": response }), example_decision()));
            (operation, vec![ApiErrorKind::UnknownRule])
        }
        Some(ApiRoute::Reserve) => {
            let description = "The decision, and the reservation if the request is admitted.";
            let schema = with_decision::<ReservationView>(api, "Reserved", description);
            let example = with_example(json!({ "reservation": ID, "expires_in_ms": 30_000 }));
            let mut response = json_response(description, schema, example);
            response["links"]["settle"] = json!({
                "operationId": "settle",
                "requestBody": { "reservation": "$response.body#/reservation", "actual": 1 },
                "description": "Settles the reservation.",
            });
            let example = json!({ "service": "llm", "attributes": { "account": "alice" }, "cost": 4000, "ttl": "30s" });
            let operation = decision("reserve", "Reserve an estimated cost")
                .with("description", RESERVE)
                .body(true, json!({ "schema": body_schema(api, BodyKind::Reserve), "example": example }))
                .response("200", response);
            (operation, vec![ApiErrorKind::UnknownRule, ApiErrorKind::StoreFull])
        }
        Some(ApiRoute::Settle) => {
            let example = json!({ "settled": true, "actual": 3120 });
            let response = json_response("The reservation is settled.", api.schema::<SettledView>(), example);
            let example = json!({ "reservation": ID, "actual": 3120 });
            let operation = decision("settle", "Settle a reservation")
                .with("description", SETTLE)
                .body(true, json!({ "schema": body_schema(api, BodyKind::Settle), "example": example }))
                .response("200", response);
            (operation, vec![ApiErrorKind::UnknownReservation])
        }
        Some(ApiRoute::Permits) => (acquire(api), vec![ApiErrorKind::UnknownRule, ApiErrorKind::StoreFull]),
        Some(ApiRoute::Permit(_)) => {
            let operation = if *method == Method::DELETE {
                let response = json!({ "description": "Permit released." });
                decision("release", "Release a permit").response("204", response)
            } else {
                let example = json!({ "permit": ID, "expires_in_ms": 30_000 });
                let response = json_response("Permit renewed.", api.schema::<RenewedView>(), example);
                let request = json!({ "schema": body_schema(api, BodyKind::Renew), "example": { "ttl": "30s" } });
                decision("renew", "Renew a permit")
                    .with("description", "Restarts the time to live of the permit.")
                    .body(false, request)
                    .response("200", response)
            };
            let id = json!({ "type": "string", "pattern": decode::ID_PATTERN });
            let operation = operation.parameter("path", "id", true, "The id of the permit.", id);
            (operation, vec![ApiErrorKind::UnknownReservation])
        }
        Some(ApiRoute::Auth) => return auth(api, method),
        None => return envoy_json(api),
        Some(ApiRoute::Root) => {
            let response = openapi::response("An HTML page.", "text/html", json!({ "type": "string" }));
            (page("root", "Start page").response("200", response), vec![])
        }
        Some(ApiRoute::Health) => {
            let response = openapi::response("The process is running.", "text/plain", json!({ "type": "string" }));
            (page("health", "Health check").response("200", response), vec![])
        }
        Some(ApiRoute::OpenApi) => {
            let operation = page("description", "OpenAPI description");
            (operation.json(ok, "OpenAPI 3.1.", json!({ "type": "object" })), vec![])
        }
        Some(ApiRoute::Docs) => {
            let headers = headers(&[("Location", "/docs/")]);
            let response = json!({ "description": "The API browser is at /docs/.", "headers": headers });
            (page("docs", "Redirect to the API browser").response("308", response), vec![])
        }
        Some(ApiRoute::DocsFile(_)) => {
            let operation = page("docs_file", "A file of the API browser")
                .parameter("path", "file", true, "Path of the file.", json!({ "type": "string" }))
                .response("200", openapi::response("The file.", "*/*", json!({})));
            (operation, vec![ApiErrorKind::UnknownPath])
        }
    };
    if operation.has_body() {
        problems.extend(with_body);
    }
    let is_public = route.is_some_and(ApiRoute::is_public);
    if !is_public {
        problems.push(ApiErrorKind::Unauthorized);
    }
    problems.push(ApiErrorKind::Method);
    let operation = with_problems(api, operation, problems);
    if is_public { operation.with("security", json!([{}])) } else { operation }
}

fn acquire(api: &mut OpenApi) -> Operation {
    let description = "The decision, and the permit if the request is admitted.";
    let schema = with_decision::<PermitView>(api, "Acquired", description);
    let refused = json!({
        "permit": null, "expires_in_ms": null, "allowed": false, "verdict": "denied", "wait_ms": 0,
        "retry_after_ms": null, "rule": "jobs", "cause": "limit", "degraded": false, "limits": [],
    });
    let refused = json_response("Refused. Nothing is held.", schema.clone(), refused);
    let example = with_example(json!({ "permit": ID, "expires_in_ms": 30_000 }));
    let mut acquired = json_response("Permit acquired.", schema, example);
    acquired["headers"] = headers(&[("Location", "The path of the permit.")]);
    for (id, description) in [("renew", "Renews the permit."), ("release", "Releases the permit.")] {
        let parameters = json!({ "id": "$response.body#/permit" });
        acquired["links"][id] = json!({ "operationId": id, "parameters": parameters, "description": description });
    }
    let example = json!({ "rule": "jobs", "attributes": { "account": "alice" }, "ttl": "30s", "wait": "2s" });
    Operation::new("acquire", "Decisions", "Acquire a permit")
        .with("description", ACQUIRE)
        .body(true, json!({ "schema": body_schema(api, BodyKind::Acquire), "example": example }))
        .response("200", refused)
        .response("201", acquired)
}

fn auth(api: &mut OpenApi, method: &Method) -> Operation {
    let text = || json!({ "type": "string" });
    let refusal = api.add_schema(
        "Refusal",
        json!({
            "type": "object",
            "description": "A problem document (RFC 9457) for a refused request, unless the rule sets another response.",
            "properties": {
                "type": text(), "title": text(), "status": { "type": "integer" }, "detail": text(),
                "violated-policies": { "type": "array", "items": text() },
            },
        }),
    );
    let either = json!({ "anyOf": [{ "$ref": "#/components/schemas/Problem" }, refusal] });
    let mut either = |name: &str, description: &str| {
        api.add_response(name, openapi::response(description, "application/problem+json", either.clone()))
    };
    let unauthorized = either(
        "AuthUnauthorized",
        "The secret is missing or wrong, or the request is refused and `refuse=401` is set.",
    );
    let forbidden = either(
        "AuthForbidden",
        "The caller is not a trusted proxy, the request is described in more than one header style, or the request is \
         refused by a deny list or with `refuse=403`.",
    );
    let quota = [
        ("RateLimit", "The remaining quota, if the rule file enables this header style."),
        ("RateLimit-Policy", "The quota policies."),
        ("Retry-After", "Whole seconds."),
        ("X-Sluicegate-Status", "The original refusal status, if `refuse` replaced it."),
    ];
    let description = "Refused. The response set by the rule that refused, or this default.";
    let mut refused = openapi::response(description, "application/problem+json", refusal);
    refused["headers"] = headers(&quota);
    let id = format!("auth_{}", method.as_str().to_ascii_lowercase());
    let mut operation = Operation::new(&id, "Forward auth", "Forward auth")
        .response("200", json!({ "description": "Admitted.", "headers": headers(&quota[..2]) }))
        .response("401", unauthorized)
        .response("403", forbidden)
        .response("429", refused.clone())
        .response("default", refused);
    operation = with_problems(api, operation, vec![ApiErrorKind::Invalid]);
    if *method == Method::GET {
        operation = operation.with("description", AUTH);
    }
    let description = "The refusal status, for proxies that accept only some, such as nginx. The original status is in \
        `X-Sluicegate-Status`.";
    let statuses = json!({ "type": "string", "enum": ["401", "403"] });
    operation = operation.parameter("query", "refuse", false, description, statuses);
    [
        ("X-Forwarded-Method", "Traefik, Caddy: the method of the request."),
        ("X-Forwarded-Uri", "Traefik, Caddy: the target of the request, with its query."),
        ("X-Forwarded-Host", "Traefik, Caddy: the host of the request."),
        ("X-Original-Method", "nginx, ingress-nginx: the method of the request."),
        ("X-Original-URI", "nginx: the target of the request, with its query."),
        ("X-Original-URL", "ingress-nginx: the full URL of the request."),
        ("X-Forwarded-For", "The client address."),
    ]
    .into_iter()
    .fold(operation, |operation, (name, description)| operation.parameter("header", name, false, description, text()))
}

fn envoy_json(api: &mut OpenApi) -> Operation {
    let (request, response) = rls::add_schemas(api);
    let status = |code: &str, remaining: Option<u32>| {
        let limit = json!({ "name": "per-account", "requestsPerUnit": 10, "unit": "MINUTE" });
        let mut status = json!({ "code": code, "currentLimit": limit });
        if let Some(remaining) = remaining {
            status["limitRemaining"] = json!(remaining);
        }
        status["durationUntilReset"] = json!("20s");
        json!({ "overallCode": code, "statuses": [status] })
    };
    let example = json!({ "domain": "edge", "descriptors": [{ "entries": [{ "key": "account", "value": "alice" }] }] });
    let description = "The request cannot be decided; the body states the reason. Nothing was consumed.";
    let operation = Operation::new("json", "Decisions", "Decide like Envoy's rate limit service")
        .with("description", JSON)
        .body(true, json!({ "schema": request, "example": example }))
        .response("200", json_response("Admitted.", response.clone(), status("OK", Some(9))))
        .response("400", openapi::response(description, "text/plain", json!({ "type": "string" })))
        .response("429", json_response("Refused.", response, status("OVER_LIMIT", None)));
    with_problems(api, operation, vec![ApiErrorKind::Unauthorized, ApiErrorKind::Method, ApiErrorKind::TooLarge])
}

/// Adds the responses to these errors.
fn with_problems(api: &mut OpenApi, operation: Operation, mut kinds: Vec<ApiErrorKind>) -> Operation {
    kinds.sort_by_key(|kind| kind.describe().0);
    kinds.into_iter().fold(operation, |operation, kind| {
        let (name, description, header) = problem_response(kind);
        let mut response = openapi::problem_response(description);
        if let Some(header) = header {
            response["headers"] = headers(&[header]);
        }
        operation.response(kind.describe().0.as_str(), api.add_response(name, response))
    })
}

/// A header and its description.
type HeaderText = (&'static str, &'static str);

/// Name, description and header of the response to an error.
const fn problem_response(kind: ApiErrorKind) -> (&'static str, &'static str, Option<HeaderText>) {
    match kind {
        ApiErrorKind::NotJson | ApiErrorKind::Invalid | ApiErrorKind::Unreadable => {
            ("BadRequest", "The body is not JSON, cannot be read, or is invalid.", None)
        }
        ApiErrorKind::Unauthorized => {
            ("Unauthorized", "The secret is missing or wrong.", Some(("WWW-Authenticate", "`Bearer`.")))
        }
        ApiErrorKind::Untrusted => ("Untrusted", "The caller is not a trusted proxy.", None),
        ApiErrorKind::UnknownPath => ("UnknownPath", "Unknown path.", None),
        ApiErrorKind::UnknownRule => ("UnknownRule", "No rule has this name.", None),
        ApiErrorKind::UnknownReservation => {
            ("UnknownReservation", "The reservation or permit has ended, has expired, or never existed.", None)
        }
        ApiErrorKind::Method => ("Method", "Method not allowed.", Some(("Allow", "The allowed methods."))),
        ApiErrorKind::TooLarge => ("TooLarge", "The body exceeds `max_request_size` bytes.", None),
        ApiErrorKind::ContentType => ("ContentType", "The content type is not `application/json`.", None),
        ApiErrorKind::StoreFull => (
            "Full",
            "Too many reservations and permits are held (`max_reservations`).",
            Some(("Retry-After", "Whole seconds.")),
        ),
    }
}

/// Adds the schema of a body, and returns a reference to it.
fn body_schema(api: &mut OpenApi, kind: BodyKind) -> Value {
    let (name, schema) = kind.schema();
    api.add_schema(name, schema)
}

/// Adds the schema of a decision with the fields of `T`, and returns a reference to it.
fn with_decision<T: ToSchema>(api: &mut OpenApi, name: &str, description: &str) -> Value {
    let decision = api.schema::<DecisionView<'_>>();
    api.add_merged_schema(name, description, vec![json!(T::schema()), decision])
}

fn headers(named: &[HeaderText]) -> Value {
    let header = |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    named.iter().map(|(name, description)| ((*name).to_owned(), header(description))).collect()
}

fn json_response(description: &str, schema: Value, example: Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema, "example": example } } })
}

fn example_decision() -> Value {
    json!({
        "allowed": true, "verdict": "allowed", "wait_ms": 0, "retry_after_ms": null, "rule": null, "cause": null,
        "degraded": false,
        "limits": [{
            "rule": "per-account", "limit": 10, "remaining": 9, "reset_ms": 1000, "verdict": "allowed",
            "shadow": false, "degraded": false,
        }],
    })
}

/// The example of a decision after these fields.
fn with_example(mut fields: Value) -> Value {
    if let (Value::Object(fields), Value::Object(decision)) = (&mut fields, example_decision()) {
        fields.extend(decision);
    }
    fields
}
