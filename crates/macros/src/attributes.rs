//! Request attributes for a rule: `with("client.ip" = ip, "account" = order.account)`.

use sluicegate_engine::rule::Attribute;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, LitStr, Result, Token};

/// Attributes with their value expressions.
#[derive(Default)]
pub(crate) struct RuleAttributes(pub(crate) Vec<(Attribute, Expr)>);

struct AttributeValue {
    name: LitStr,
    attribute: Attribute,
    value: Expr,
}

impl Parse for AttributeValue {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let wrong = |error: Error| {
            Error::new(error.span(), r#"invalid attributes: write `with("client.ip" = ip, "account" = order.account)`"#)
        };
        let name: LitStr = input.parse().map_err(wrong)?;
        let attribute = name.value().parse();
        let attribute = attribute.map_err(|error| Error::new(name.span(), error))?;
        if let Attribute::Param(param) = &attribute {
            let message =
                format!("a function has no path parameters: use another attribute in the rule, such as \"{param}\"");
            return Err(Error::new(name.span(), message));
        }
        input.parse::<Token![=]>().map_err(wrong)?;
        Ok(Self { name, attribute, value: input.parse()? })
    }
}

impl Parse for RuleAttributes {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut with = Self::default();
        for AttributeValue { name, attribute, value } in
            Punctuated::<AttributeValue, Token![,]>::parse_terminated(input)?
        {
            if with.0.iter().any(|(known, _)| *known == attribute) {
                let message = format!("`{attribute}` is set twice: keep one of them");
                return Err(Error::new(name.span(), message));
            }
            with.0.push((attribute, value));
        }
        Ok(with)
    }
}
