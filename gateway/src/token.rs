//! Who somebody is: a token that the service signs and nobody else can.

use jsonwebtoken::errors::Error;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

/// What a token says.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The user's id, the member of the room.
    pub sub: String,
    /// When it expires, in Unix seconds.
    pub exp: u64,
    /// Where the user may be present; `None` is everywhere. A last `*` stands for any end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rooms: Option<Vec<String>>,
}

impl Claims {
    /// Whether the user may be present in `room`.
    pub fn may_enter(&self, room: &str) -> bool {
        let Some(rooms) = &self.rooms else { return true };
        rooms.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(start) => room.starts_with(start),
            None => room == allowed,
        })
    }
}

/// Signs and reads tokens.
pub struct Tokens {
    sign: EncodingKey,
    read: DecodingKey,
    rules: Validation,
}

impl Tokens {
    /// With the secret that the service and the gateway share.
    ///
    /// # Errors
    /// The secret is empty.
    pub fn new(secret: &str) -> Result<Self, Error> {
        // HS256 alone: a token that names another algorithm is none.
        let mut rules = Validation::new(Algorithm::HS256);
        rules.set_required_spec_claims(&["exp", "sub"]);
        rules.leeway = 5;
        let sign = EncodingKey::from_secret(secret.as_bytes())?;
        let read = DecodingKey::from_secret(secret.as_bytes())?;
        Ok(Self { sign, read, rules })
    }

    /// What the token says.
    ///
    /// # Errors
    /// It is no token, of another secret, or expired.
    pub fn read(&self, token: &str) -> Result<Claims, Error> {
        Ok(jsonwebtoken::decode::<Claims>(token, &self.read, &self.rules)?.claims)
    }

    /// A token.
    ///
    /// # Errors
    /// The claims cannot be written.
    pub fn sign(&self, claims: &Claims) -> Result<String, Error> {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &self.sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(secret: &str) -> Tokens {
        Tokens::new(secret).unwrap()
    }

    fn claims(rooms: Option<&[&str]>) -> Claims {
        let rooms = rooms.map(|rooms| rooms.iter().map(|&room| room.to_owned()).collect());
        Claims { sub: "asha".into(), exp: 4_000_000_000, rooms }
    }

    #[test]
    fn a_token_is_read_with_its_secret_only() {
        let token = tokens("one").sign(&claims(None)).unwrap();
        assert_eq!(tokens("one").read(&token).unwrap(), claims(None));
        assert!(tokens("two").read(&token).is_err());
        assert!(tokens("one").read(&token[..token.len() - 2]).is_err());
    }

    #[test]
    fn an_expired_token_is_none() {
        let token = tokens("one").sign(&Claims { exp: 1_000, ..claims(None) }).unwrap();
        assert!(tokens("one").read(&token).is_err());
    }

    #[test]
    fn a_token_without_signature_is_none() {
        // {"alg":"none"}.{"sub":"asha","exp":4000000000}.
        let forged = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhc2hhIiwiZXhwIjo0MDAwMDAwMDAwfQ.";
        assert!(tokens("one").read(forged).is_err());
    }

    #[test]
    fn rooms_are_names_or_starts() {
        assert!(claims(None).may_enter("gig:42"));
        assert!(claims(Some(&["gig:42"])).may_enter("gig:42"));
        assert!(!claims(Some(&["gig:42"])).may_enter("gig:421"));
        assert!(claims(Some(&["chat:*"])).may_enter("chat:7"));
        assert!(!claims(Some(&["chat:*", "gig:4"])).may_enter("gig:42"));
        assert!(!claims(Some(&[])).may_enter("gig:42"));
    }
}
