"""The OpenAPI document: the types of answers, and what is made of them, the routes and the actions."""
