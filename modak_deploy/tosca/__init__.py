"""TOSCA blueprints: the type library made from the models, and what reads, checks, packs and draws blueprints."""
