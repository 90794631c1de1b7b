//! Only claims of a verified token are attributes.
#![cfg(feature = "jwt")]

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{EncodingKey, Header};
use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::{Attribute, Attributes};
use sluicegate_http_adapter::attributes::jwt::{
    JwtAlgorithm, JwtKey, JwtKeyError, JwtVerifier, JwtVerifierBuilder, NoKeys,
};
use sluicegate_http_adapter::attributes::{AttributeSourceError, AttributeSources, HttpAttributes};

const SECRET: &[u8] = &[7; 64];
const OTHER_SECRET: &[u8] = &[8; 64];
const RSA: &[u8] = include_bytes!("keys/rsa.der");
const OTHER_RSA: &[u8] = include_bytes!("keys/rsa_other.der");
const RSA_PUBLIC: &str = include_str!("keys/rsa.pub.pem");
const P256: &[u8] = include_bytes!("keys/p256.der");
const P256_PUBLIC: &str = include_str!("keys/p256.pub.pem");
const P384: &[u8] = include_bytes!("keys/p384.der");
const P384_PUBLIC: &str = include_str!("keys/p384.pub.pem");
const ED25519: &[u8] = include_bytes!("keys/ed25519.der");
const ED25519_PUBLIC: &str = include_str!("keys/ed25519.pub.pem");

/// Current time of all tests, in Unix time.
const NOW: u64 = 1_800_000_000;

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_unix(Duration::from_secs(NOW)))
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn signed_parts(header: &Value, claims: &Value, algorithm: JwtAlgorithm, key: &EncodingKey) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let signer = (DEFAULT_PROVIDER.signer_factory)(&algorithm, key).unwrap();
    let signature = signer.try_sign(message.as_bytes()).unwrap();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn signed(algorithm: JwtAlgorithm, key: &EncodingKey, claims: &Value) -> String {
    signed_parts(&serde_json::to_value(Header::new(algorithm)).unwrap(), claims, algorithm, key)
}

fn secret_token(claims: &Value) -> String {
    signed(JwtAlgorithm::HS256, &EncodingKey::from_secret(SECRET), claims)
}

fn claims() -> Value {
    json!({ "sub": "alice", "exp": NOW + 600 })
}

fn secret_verifier() -> JwtVerifierBuilder {
    JwtVerifier::builder().key(JwtKey::secret(JwtAlgorithm::HS256, SECRET).unwrap()).clock(clock())
}

fn subject(verifier: &JwtVerifier, token: &str) -> Option<String> {
    verifier.verify(token)?.text("sub").map(Cow::into_owned)
}

#[test]
fn each_algorithm_verifies_only_its_own_tokens() {
    use JwtAlgorithm as A;
    let secret = || EncodingKey::from_secret(SECRET);
    let rsa = || EncodingKey::from_rsa_der(RSA);
    let keys: Vec<(A, EncodingKey, JwtKey)> = vec![
        (A::HS256, secret(), JwtKey::secret(A::HS256, SECRET).unwrap()),
        (A::HS384, secret(), JwtKey::secret(A::HS384, SECRET).unwrap()),
        (A::HS512, secret(), JwtKey::secret(A::HS512, SECRET).unwrap()),
        (A::RS256, rsa(), JwtKey::public_pem(A::RS256, RSA_PUBLIC).unwrap()),
        (A::RS384, rsa(), JwtKey::public_pem(A::RS384, RSA_PUBLIC).unwrap()),
        (A::RS512, rsa(), JwtKey::public_pem(A::RS512, RSA_PUBLIC).unwrap()),
        (A::PS256, rsa(), JwtKey::public_pem(A::PS256, RSA_PUBLIC).unwrap()),
        (A::ES256, EncodingKey::from_ec_der(P256), JwtKey::public_pem(A::ES256, P256_PUBLIC).unwrap()),
        (A::ES384, EncodingKey::from_ec_der(P384), JwtKey::public_pem(A::ES384, P384_PUBLIC).unwrap()),
        (A::EdDSA, EncodingKey::from_ed_der(ED25519), JwtKey::public_pem(A::EdDSA, ED25519_PUBLIC).unwrap()),
    ];
    let tokens: Vec<String> = keys.iter().map(|(algorithm, key, _)| signed(*algorithm, key, &claims())).collect();
    for (own, (algorithm, _, key)) in keys.iter().enumerate() {
        let verifier = JwtVerifier::builder().key(key.clone()).clock(clock()).build().unwrap();
        for (at, token) in tokens.iter().enumerate() {
            let expected = (at == own).then(|| "alice".to_owned());
            assert_eq!(subject(&verifier, token), expected, "{algorithm:?} {:?}", keys[at].0);
        }
    }
    let all = keys.iter().fold(JwtVerifier::builder().clock(clock()), |builder, (_, _, key)| builder.key(key.clone()));
    let all = all.build().unwrap();
    assert!(tokens.iter().all(|token| subject(&all, token).is_some()));
}

#[test]
fn a_token_does_not_choose_its_algorithm() {
    let rsa = JwtKey::public_pem(JwtAlgorithm::RS256, RSA_PUBLIC).unwrap();
    let verifiers = [
        JwtVerifier::builder().key(rsa.clone()).clock(clock()).build().unwrap(),
        secret_verifier().key(rsa).build().unwrap(),
    ];
    let public_as_secret = EncodingKey::from_secret(RSA_PUBLIC.as_bytes());
    let trimmed_as_secret = EncodingKey::from_secret(RSA_PUBLIC.trim().as_bytes());
    let header = |algorithm: &str| json!({ "typ": "JWT", "alg": algorithm });
    let unsigned = |algorithm: &str| format!("{}.{}.", part(&header(algorithm)), part(&claims()));
    let hmac = JwtAlgorithm::HS256;
    let forged = [
        unsigned("none"),
        unsigned("None"),
        unsigned("NONE"),
        unsigned(""),
        unsigned("HS256"),
        unsigned("RS256"),
        unsigned("none").trim_end_matches('.').to_owned(),
        signed(hmac, &public_as_secret, &claims()),
        signed(hmac, &trimmed_as_secret, &claims()),
        signed(hmac, &EncodingKey::from_secret(b""), &claims()),
        signed_parts(&header("RS256"), &claims(), hmac, &public_as_secret),
        signed_parts(&header("none"), &claims(), hmac, &EncodingKey::from_secret(SECRET)),
        signed_parts(&header("hs256"), &claims(), hmac, &EncodingKey::from_secret(SECRET)),
        signed_parts(&json!({ "typ": "JWT" }), &claims(), hmac, &EncodingKey::from_secret(SECRET)),
        signed(JwtAlgorithm::RS256, &EncodingKey::from_rsa_der(OTHER_RSA), &claims()),
        signed(JwtAlgorithm::RS384, &EncodingKey::from_rsa_der(RSA), &claims()),
        signed(hmac, &EncodingKey::from_secret(OTHER_SECRET), &claims()),
    ];
    for verifier in &verifiers {
        for token in &forged {
            assert_eq!(verifier.verify(token), None, "{token}");
        }
    }
    let valid = signed(JwtAlgorithm::RS256, &EncodingKey::from_rsa_der(RSA), &claims());
    assert!(verifiers.iter().all(|verifier| subject(verifier, &valid).is_some()));
}

#[test]
fn embedded_keys_are_ignored() {
    let verifier = secret_verifier().build().unwrap();
    let own_key = json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(OTHER_SECRET) });
    let header = json!({ "alg": "HS256", "jwk": own_key, "jku": "http://127.0.0.1/keys", "x5u": "http://127.0.0.1/" });
    let forged = signed_parts(&header, &claims(), JwtAlgorithm::HS256, &EncodingKey::from_secret(OTHER_SECRET));
    assert_eq!(verifier.verify(&forged), None);
    // A token with an unknown critical extension is rejected.
    let header = json!({ "alg": "HS256", "crit": ["b64"], "b64": false });
    let critical = signed_parts(&header, &claims(), JwtAlgorithm::HS256, &EncodingKey::from_secret(SECRET));
    assert_eq!(verifier.verify(&critical), None);
}

#[test]
fn keys_are_selected_by_kid() {
    let key = |secret: &[u8]| JwtKey::secret(JwtAlgorithm::HS256, secret).unwrap();
    let token = |id: Option<&str>, secret: &[u8]| {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(JwtAlgorithm::HS256) };
        let header = serde_json::to_value(header).unwrap();
        signed_parts(&header, &claims(), JwtAlgorithm::HS256, &EncodingKey::from_secret(secret))
    };
    let old_and_new = JwtVerifier::builder()
        .key(key(SECRET).with_id("old"))
        .key(key(OTHER_SECRET).with_id("new"))
        .clock(clock())
        .build()
        .unwrap();
    let nameless = secret_verifier().build().unwrap();
    for (id, secret, known_by_id, known_by_nameless) in [
        (Some("old"), SECRET, true, true),
        (Some("new"), OTHER_SECRET, true, false),
        (Some("old"), OTHER_SECRET, false, false),
        (Some("new"), SECRET, false, true),
        (Some("../../dev/null"), SECRET, false, true),
        (Some(""), SECRET, false, true),
        (None, SECRET, true, true),
        (None, OTHER_SECRET, true, false),
    ] {
        let token = token(id, secret);
        assert_eq!(old_and_new.verify(&token).is_some(), known_by_id, "{id:?}");
        assert_eq!(nameless.verify(&token).is_some(), known_by_nameless, "{id:?}");
    }
}

#[test]
fn a_token_is_valid_from_nbf_until_exp() {
    let strict = || secret_verifier().leeway(Duration::ZERO).build().unwrap();
    let lenient = || secret_verifier().build().unwrap();
    for (claims, holds_strictly, holds_with_a_minute) in [
        (json!({ "sub": "a", "exp": NOW + 1 }), true, true),
        (json!({ "sub": "a", "exp": NOW }), false, true),
        (json!({ "sub": "a", "exp": NOW - 59 }), false, true),
        (json!({ "sub": "a", "exp": NOW - 60 }), false, false),
        (json!({ "sub": "a", "exp": NOW as f64 + 0.5 }), true, true),
        (json!({ "sub": "a", "exp": 1e300 }), true, true),
        (json!({ "sub": "a", "exp": u64::MAX }), true, true),
        (json!({ "sub": "a", "exp": 0 }), false, false),
        (json!({ "sub": "a", "exp": -1 }), false, false),
        (json!({ "sub": "a", "exp": (NOW + 600).to_string() }), false, false),
        (json!({ "sub": "a", "exp": null }), false, false),
        (json!({ "sub": "a", "exp": [NOW + 600] }), false, false),
        (json!({ "sub": "a" }), false, false),
        (json!({ "sub": "a", "exp": NOW + 600, "nbf": NOW }), true, true),
        (json!({ "sub": "a", "exp": NOW + 600, "nbf": NOW + 1 }), false, true),
        (json!({ "sub": "a", "exp": NOW + 600, "nbf": NOW + 60 }), false, true),
        (json!({ "sub": "a", "exp": NOW + 600, "nbf": NOW + 61 }), false, false),
        (json!({ "sub": "a", "exp": NOW + 600, "nbf": "soon" }), false, false),
        (json!({ "sub": "a", "exp": NOW + 600, "nbf": -5 }), true, true),
    ] {
        let token = secret_token(&claims);
        assert_eq!(strict().verify(&token).is_some(), holds_strictly, "{claims}");
        assert_eq!(lenient().verify(&token).is_some(), holds_with_a_minute, "{claims}");
    }
    let for_ever = secret_verifier().allow_no_expiry().build().unwrap();
    assert!(for_ever.verify(&secret_token(&json!({ "sub": "a" }))).is_some());
    assert!(for_ever.verify(&secret_token(&json!({ "sub": "a", "exp": NOW - 60 }))).is_none());
}

#[test]
fn a_token_expires_as_time_passes() {
    let clock = clock();
    let verifier = secret_verifier().leeway(Duration::from_secs(5)).clock(clock.clone()).build().unwrap();
    let token = secret_token(&claims());
    clock.advance(Duration::from_millis(604_999));
    assert!(verifier.verify(&token).is_some());
    clock.advance(Duration::from_millis(1));
    assert!(verifier.verify(&token).is_none());
    assert!(clock.now() > Timestamp::ZERO);
}

#[test]
fn issuer_and_audience_are_checked() {
    let verifier = secret_verifier().issuer("us").issuer("them").audience("shop").audience("bank").build().unwrap();
    for (issuer, audience, holds) in [
        (json!("us"), json!("shop"), true),
        (json!("them"), json!(["x", "bank"]), true),
        (json!("us"), json!(["x"]), false),
        (json!("us"), json!([]), false),
        (json!("us"), json!(null), false),
        (json!("us"), json!([["shop"]]), false),
        (json!("us"), json!({ "shop": true }), false),
        (json!("US"), json!("shop"), false),
        (json!(["us"]), json!("shop"), false),
        (json!(null), json!("shop"), false),
        (json!("evil"), json!("shop"), false),
        (json!("us"), json!("shops"), false),
    ] {
        let claims = json!({ "sub": "a", "exp": NOW + 600, "iss": issuer, "aud": audience });
        assert_eq!(verifier.verify(&secret_token(&claims)).is_some(), holds, "{claims}");
    }
    assert!(verifier.verify(&secret_token(&claims())).is_none());
    // Not required, so not checked.
    let claims = json!({ "sub": "a", "exp": NOW + 600, "iss": "any", "aud": "any" });
    assert!(secret_verifier().build().unwrap().verify(&secret_token(&claims)).is_some());
}

#[test]
fn scalar_claims_are_attributes() {
    let token = secret_token(&json!({
        "exp": NOW + 600, "sub": "alice", "tenant": 42, "ratio": 0.5, "big": u64::MAX, "minus": -3,
        "admin": true, "guest": false, "roles": ["a"], "address": { "city": "x" }, "nothing": null, "empty": "",
        "a.b": "dotted",
    }));
    let sources = AttributeSources::builder().jwt(secret_verifier().build().unwrap()).build().unwrap();
    let request = Request::get("/").header("authorization", format!("bearer {token}")).body(()).unwrap();
    let attributes = HttpAttributes::new(&request, &sources);
    for (name, expected) in [
        ("jwt.sub", Some("alice")),
        ("jwt.tenant", Some("42")),
        ("jwt.ratio", Some("0.5")),
        ("jwt.big", Some("18446744073709551615")),
        ("jwt.minus", Some("-3")),
        ("jwt.admin", Some("true")),
        ("jwt.guest", Some("false")),
        ("jwt.empty", Some("")),
        ("jwt.a.b", Some("dotted")),
        ("jwt.roles", None),
        ("jwt.address", None),
        ("jwt.address.city", None),
        ("jwt.nothing", None),
        ("jwt.other", None),
        ("jwt", None),
        ("sub", None),
    ] {
        assert_eq!(attributes.get(&name.parse().unwrap()).as_deref(), expected, "{name}");
    }
}

/// A token is verified on the first claim lookup and not again: it stays valid for the request even if it
/// expires meanwhile.
#[test]
fn a_token_is_verified_once_per_request() {
    let clock = clock();
    let sources =
        AttributeSources::builder().jwt(secret_verifier().clock(clock.clone()).build().unwrap()).build().unwrap();
    let token = secret_token(&claims());
    let request = Request::get("/").header("authorization", format!("Bearer {token}")).body(()).unwrap();
    let first = HttpAttributes::new(&request, &sources);
    assert_eq!(first.get(&Attribute::custom("jwt.sub")).as_deref(), Some("alice"));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(first.get(&Attribute::custom("jwt.sub")).as_deref(), Some("alice"));
    let second = HttpAttributes::new(&request, &sources);
    assert_eq!(second.get(&Attribute::custom("jwt.sub")), None);
}

#[test]
fn an_invalid_token_gives_no_attributes() {
    let sources = AttributeSources::builder().jwt(secret_verifier().build().unwrap()).build().unwrap();
    let valid = secret_token(&claims());
    let (message, _) = valid.rsplit_once('.').unwrap();
    for value in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer .".to_owned(),
        "Bearer ..".to_owned(),
        format!("Basic {valid}"),
        format!("Bearer{valid}"),
        format!("Bearer \"{valid}\""),
        format!("Bearer {valid}x"),
        format!("Bearer {valid}."),
        format!("Bearer {valid}="),
        format!("Bearer .{valid}"),
        format!("Bearer {valid},{valid}"),
        format!("Bearer {message}"),
        format!("Bearer {message}."),
        format!("Bearer {}{}", "x".repeat(20_000), valid),
    ] {
        let request = Request::get("/").header("authorization", &value).body(()).unwrap();
        assert_eq!(HttpAttributes::new(&request, &sources).get(&Attribute::custom("jwt.sub")), None, "{value}");
    }
    let elsewhere = Request::get(format!("/?access_token={valid}")).header("x-token", &valid).body(()).unwrap();
    assert_eq!(HttpAttributes::new(&elsewhere, &sources).get(&Attribute::custom("jwt.sub")), None);
}

#[test]
fn mismatched_keys_are_rejected() {
    use JwtAlgorithm as A;
    let rsa_1024 = include_str!("keys/rsa_1024.pub.pem");
    let pkcs1 = include_str!("keys/rsa.pkcs1.pem");
    let x25519 = include_str!("keys/x25519.pub.pem");
    let cut = &RSA_PUBLIC[..RSA_PUBLIC.len() / 2];
    for (algorithm, text, expected) in [
        (A::HS256, RSA_PUBLIC, JwtKeyError::NotPublic),
        (A::RS256, P256_PUBLIC, JwtKeyError::Mismatch),
        (A::RS256, ED25519_PUBLIC, JwtKeyError::Mismatch),
        (A::ES256, RSA_PUBLIC, JwtKeyError::Mismatch),
        (A::ES256, P384_PUBLIC, JwtKeyError::Mismatch),
        (A::ES384, P256_PUBLIC, JwtKeyError::Mismatch),
        (A::EdDSA, P256_PUBLIC, JwtKeyError::Mismatch),
        (A::EdDSA, x25519, JwtKeyError::Mismatch),
        (A::RS256, rsa_1024, JwtKeyError::ShortRsa { bits: 1024 }),
        (A::RS256, pkcs1, JwtKeyError::NotPem),
        (A::RS256, cut, JwtKeyError::NotPem),
        (A::RS256, "", JwtKeyError::NotPem),
        (A::RS256, "-----BEGIN PUBLIC KEY-----\n!!!\n-----END PUBLIC KEY-----\n", JwtKeyError::NotPem),
        (A::RS256, "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n", JwtKeyError::NotPem),
    ] {
        assert_eq!(JwtKey::public_pem(algorithm, text).unwrap_err(), expected, "{algorithm:?} {text}");
    }
    assert!(JwtKey::public_pem(A::RS256, &format!("\n  {RSA_PUBLIC}\n")).is_ok());
    for (algorithm, length, expected) in [
        (A::HS256, 31, JwtKeyError::ShortSecret { found: 31, min: 32 }),
        (A::HS384, 47, JwtKeyError::ShortSecret { found: 47, min: 48 }),
        (A::HS512, 0, JwtKeyError::ShortSecret { found: 0, min: 64 }),
        (A::RS256, 64, JwtKeyError::NotASecret),
    ] {
        assert_eq!(JwtKey::secret(algorithm, &vec![1; length]).unwrap_err(), expected);
    }
    assert_eq!(JwtVerifier::builder().build().unwrap_err(), NoKeys);
    let shown = format!("{:?}", JwtKey::secret(A::HS256, b"a secret that must not be logged").unwrap());
    assert!(!shown.contains("secret") && !shown.contains("97, 32"), "{shown}");
}

#[test]
fn a_source_cannot_use_the_claim_prefix() {
    let pretender = || AttributeSources::builder().with("jwt.sub", |_| Some(Cow::Borrowed("root")));
    assert!(pretender().build().is_ok());
    let error = pretender().jwt(secret_verifier().build().unwrap()).build().unwrap_err();
    assert_eq!(error, AttributeSourceError::ReservedClaim("jwt.sub".to_owned()));
}

proptest! {
    #[test]
    fn arbitrary_text_is_not_a_token(text in "\\PC{0,60}|[A-Za-z0-9_-]{0,20}(\\.[A-Za-z0-9_-]{0,20}){0,3}") {
        prop_assert_eq!(secret_verifier().build().unwrap().verify(&text), None);
    }

    #[test]
    fn changing_any_byte_invalidates_a_token(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_.-]") {
        let verifier = secret_verifier().build().unwrap();
        let token = secret_token(&claims());
        let at = at.index(token.len());
        let mut changed = token.clone();
        changed.replace_range(at..at + 1, &with);
        prop_assert_eq!(verifier.verify(&changed).is_some(), changed == token);
    }

    #[test]
    fn arbitrary_headers_and_claims_do_not_panic(header in "\\{\"alg\":\"(HS256|none|RS256)\"(,\"[a-z0-9]{1,4}\":(1|null|\\[\\]|\"x\")){0,3}\\}", claims in "\\PC{0,20}|[\\[{]{0,300}") {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signer = (DEFAULT_PROVIDER.signer_factory)(&JwtAlgorithm::HS256, &EncodingKey::from_secret(SECRET)).unwrap();
        let signature = URL_SAFE_NO_PAD.encode(signer.try_sign(message.as_bytes()).unwrap());
        prop_assert_eq!(secret_verifier().build().unwrap().verify(&format!("{message}.{signature}")), None);
    }
}
