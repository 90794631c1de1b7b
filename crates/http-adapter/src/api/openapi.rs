//! OpenAPI 3.1 documents from route tables and from the types of bodies.
//!
//! Schemas come from [`ToSchema`]: a field is described where serde reads or writes it, by its type and its doc
//! comment. A type that rejects unknown fields (`deny_unknown_fields`) is a request, and its schema is used as it is.
//! Every other struct is a response: it has no other fields than these, and its nullable fields are always present.

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::ProblemDocument;

/// An OpenAPI document under construction.
#[derive(Debug, Default)]
pub struct OpenApi {
    paths: Map<String, Value>,
    responses: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl OpenApi {
    /// Adds the schema of a type and of the types of its fields, and returns a reference to it.
    pub fn schema<T: ToSchema>(&mut self) -> Value {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        // Fields that are flattened refer to other schemas, which follow.
        for (name, schema) in schemas.into_iter().rev() {
            if !self.schemas.contains_key(&name) {
                let mut schema = json!(schema);
                self.complete(&mut schema);
                self.schemas.insert(name, schema);
            }
        }
        reference("schemas", &T::name())
    }

    /// Adds a schema under a name, and returns a reference to it.
    pub fn add_schema(&mut self, name: &str, schema: Value) -> Value {
        self.schemas.insert(name.to_owned(), schema);
        reference("schemas", name)
    }

    /// Returns a schema that has been added.
    pub fn schema_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.schemas.get_mut(name)
    }

    /// Adds the schema of problem documents with the extension members `M`, as `Problem`.
    pub fn problem_schema<M: ToSchema>(&mut self) -> Value {
        let mut extensions = Vec::new();
        M::schemas(&mut extensions);
        for (name, schema) in extensions {
            let mut schema = json!(schema);
            self.complete(&mut schema);
            self.schemas.insert(name, schema);
        }
        let parts = vec![json!(ProblemDocument::schema()), json!(M::schema())];
        self.add_merged_schema("Problem", "A problem document (RFC 9457).", parts)
    }

    /// Adds the schema of an object with the fields of all `parts`, and returns a reference to it.
    pub fn add_merged_schema(&mut self, name: &str, description: &str, parts: Vec<Value>) -> Value {
        let mut schema = json!({ "description": description, "allOf": parts });
        self.complete(&mut schema);
        self.add_schema(name, schema)
    }

    /// Adds a response under a name, and returns a reference to it.
    pub fn add_response(&mut self, name: &str, response: Value) -> Value {
        self.responses.entry(name).or_insert(response);
        reference("responses", name)
    }

    /// Adds an operation.
    pub fn add_operation(&mut self, path: &str, method: &Method, operation: Operation) {
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[method.as_str().to_ascii_lowercase()] = operation.0;
    }

    /// Returns the document as text. `head` has its other members, such as `info`.
    pub fn finish(self, head: Value, security_schemes: &Value) -> String {
        let mut document = head;
        document["openapi"] = json!("3.1.0");
        document["paths"] = self.paths.into();
        document["components"] =
            json!({ "securitySchemes": security_schemes, "responses": self.responses, "schemas": self.schemas });
        document.to_string()
    }

    /// Completes a derived schema: merges flattened structs, closes responses, and removes the formats of numbers,
    /// which name Rust types.
    fn complete(&self, schema: &mut Value) {
        if let Some(parts) = schema.get_mut("allOf").map(Value::take) {
            self.merge(schema, parts.as_array().map_or(&[], Vec::as_slice));
        }
        let Value::Object(fields) = schema else {
            schema.as_array_mut().into_iter().flatten().for_each(|item| self.complete(item));
            return;
        };
        if fields.get("type").is_some_and(|it| has_type(it, "integer") || has_type(it, "number")) {
            fields.remove("format");
        }
        if let Some(Value::String(text)) = fields.get_mut("description") {
            *text = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
        }
        // A tuple has all its items.
        if let Some(length) = fields.get("prefixItems").and_then(Value::as_array).map(Vec::len) {
            fields.insert("minItems".to_owned(), json!(length));
        }
        if let Some(properties) = fields.get("properties").and_then(Value::as_object)
            && !fields.contains_key("additionalProperties")
        {
            let listed = fields.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let is_required = |name: &str, schema: &Value| is_nullable(schema) || listed.iter().any(|it| it == name);
            let required = properties.iter().filter(|(name, schema)| is_required(name, schema));
            let required: Value = required.map(|(name, _)| name.as_str()).collect();
            fields.insert("required".to_owned(), required);
            fields.insert("additionalProperties".to_owned(), json!(false));
        }
        fields.values_mut().for_each(|value| self.complete(value));
    }

    /// Replaces a schema by the union of the parts of a struct with flattened fields.
    fn merge(&self, schema: &mut Value, parts: &[Value]) {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for part in parts {
            let name = part["$ref"].as_str().and_then(|to| to.rsplit('/').next());
            let part = name.and_then(|name| self.schemas.get(name)).unwrap_or(part);
            properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        let description = schema["description"].take();
        *schema = json!({ "type": "object", "properties": properties, "required": required });
        if !description.is_null() {
            schema["description"] = description;
        }
    }
}

fn has_type(found: &Value, name: &str) -> bool {
    found == name || found.as_array().is_some_and(|names| names.iter().any(|it| it == name))
}

fn is_nullable(schema: &Value) -> bool {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    has_type(&schema["type"], "null") || variants.into_iter().any(|it| it["type"] == "null")
}

fn reference(section: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{section}/{name}") })
}

/// An operation: a method of a path.
#[derive(Debug)]
pub struct Operation(Value);

impl Operation {
    /// Creates an operation without parameters and responses.
    pub fn new(id: &str, tag: &str, summary: &str) -> Self {
        Self(json!({ "operationId": id, "tags": [tag], "summary": summary, "responses": {} }))
    }

    /// Sets a member, such as `description`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0[name] = value.into();
        self
    }

    /// Adds a parameter. `place` is `path`, `query` or `header`. Parameters of the path are required.
    #[must_use]
    pub fn parameter(mut self, place: &str, name: &str, required: bool, description: &str, schema: Value) -> Self {
        let required = required || place == "path";
        let parameter =
            json!({ "name": name, "in": place, "required": required, "description": description, "schema": schema });
        match self.0.get_mut("parameters").and_then(Value::as_array_mut) {
            Some(parameters) => parameters.push(parameter),
            None => self.0["parameters"] = json!([parameter]),
        }
        self
    }

    /// Sets the JSON body.
    #[must_use]
    pub fn body(self, required: bool, content: Value) -> Self {
        self.with("requestBody", json!({ "required": required, "content": { "application/json": content } }))
    }

    /// True if the operation has a body.
    pub fn has_body(&self) -> bool {
        self.0.get("requestBody").is_some()
    }

    /// Adds a response. `status` is a status code or `default`.
    #[must_use]
    pub fn response(mut self, status: &str, response: Value) -> Self {
        self.0["responses"][status] = response;
        self
    }

    /// Adds a response with a JSON body.
    #[must_use]
    pub fn json(self, status: StatusCode, description: &str, schema: Value) -> Self {
        self.response(status.as_str(), response(description, "application/json", schema))
    }
}

/// A response with a body.
pub fn response(description: &str, content_type: &str, schema: Value) -> Value {
    json!({ "description": description, "content": { content_type: { "schema": schema } } })
}

/// A response with a problem document.
pub fn problem_response(description: &str) -> Value {
    response(description, "application/problem+json", reference("schemas", "Problem"))
}

/// Schema of a string with these values.
pub fn string_enum<'a>(values: impl IntoIterator<Item = &'a str>, description: Option<&str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).description(description).build()
}

/// Schema of a field that is always true.
pub fn always_true() -> Object {
    ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true])).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response.
    #[derive(ToSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Summary {
        /// Seconds since
        /// the start.
        #[schema(minimum = 0)]
        uptime_s: f64,
        error: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }

    #[derive(ToSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Details {
        #[serde(flatten)]
        summary: Summary,
        pair: (String, u64),
    }

    #[derive(ToSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Call {
        name: String,
        cost: Option<u64>,
    }

    #[test]
    fn responses_are_closed_and_complete() {
        let mut api = OpenApi::default();
        assert_eq!(api.schema::<Details>(), json!({ "$ref": "#/components/schemas/Details" }));
        let uptime = json!({ "type": "number", "minimum": 0, "description": "Seconds since the start." });
        let error = json!({ "type": ["string", "null"] });
        let warnings = json!({ "type": "array", "items": { "type": "string" } });
        assert_eq!(
            api.schemas["Summary"],
            json!({
                "type": "object",
                "description": "A response.",
                "properties": { "uptime_s": uptime, "error": error, "warnings": warnings },
                "required": ["uptime_s", "error"],
                "additionalProperties": false,
            })
        );
        let details = &api.schemas["Details"];
        let names: Vec<&String> = details["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["uptime_s", "error", "warnings", "pair"]);
        assert_eq!(details["required"], json!(["uptime_s", "error", "pair"]));
        assert_eq!(details["additionalProperties"], false);
        assert_eq!(
            (&details["properties"]["pair"]["minItems"], &details["properties"]["pair"]["items"]),
            (&json!(2), &json!(false))
        );
    }

    #[test]
    fn optional_fields_of_requests_are_not_required() {
        let mut api = OpenApi::default();
        api.schema::<Call>();
        let call = &api.schemas["Call"];
        assert_eq!((&call["required"], &call["additionalProperties"]), (&json!(["name"]), &json!(false)));
        assert_eq!(call["properties"]["cost"], json!({ "type": ["integer", "null"], "minimum": 0 }));
    }
}
