"""What all questions share: their forms, their conditions, the moment that they are asked of."""
