"""Words of questions about specific rules: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

RULES: Final = listed("""
    a fine for, a reaction, ability check*, ability score*, able to attack, able to cast, able to move, able to use,
    access level, according to, advantage, after i roll, after rolling, against the, alimony, allowance, allowed, am
    i able, am i covered, am i still, am i supposed, amendment, an action, annual leave, anonymi*, applies, apply
    if, apply to, apply when, approval, are considered, are players, are they able, are we able, are we covered, are
    we supposed, area of effect, armor class, armour class, article eight, article eleven, article five, article
    four, article nine, article one, article seven, article six, article ten, article three, article twelve, article
    two, as written, at level, at most, at what age, at what point, attack of opportunity, attack roll*, attune*,
    attunement, authoris*, authority to, authoriz*, baggage, bail, ban on, banned, be able to, be covered, beats,
    before rolling, binding, bonus action*, book says, breach of, building code, by the book, bylaw*, cabin bag*,
    can a, can an, can anybody, can anyone, can both, can children, can creatures, can dwarves, can each, can elves,
    can employees, can every, can guests, can he be, can i add, can i appeal, can i apply, can i attack, can i bet,
    can i block, can i break, can i build, can i cancel, can i carry, can i cast, can i castle, can i charge, can i
    claim, can i combine, can i concentrate, can i dash, can i deduct, can i disengage, can i dodge, can i draw two,
    can i drive, can i export, can i file, can i fly, can i fold, can i get my money, can i have more, can i have
    two, can i hide as, can i import, can i jump, can i keep my, can i move, can i opt, can i park, can i parry, can
    i pass back, can i pay late, can i play a, can i play two, can i raise after, can i ready, can i record, can i
    refuse, can i renew, can i resell, can i return, can i reuse, can i ride, can i roll, can i share my, can i
    stack, can i still, can i swap, can i tackle, can i take a long, can i take a short, can i take an, can i take
    photo*, can i take two, can i terminate, can i trade, can i transfer, can i use my, can i use the, can i use
    this, can i wear, can i wield, can i work from, can it be, can members, can minors, can more than, can multiple,
    can my, can non, can one, can only, can our, can people, can players, can somebody, can someone, can the dm, can
    the player, can the target, can they, can two, can visitors, can we ask customers, can we both, can we deduct,
    can we require, can we send customer, can we share, can we still, can we use, can you attack, can you cast, can
    you castle, can you combine, can you have two, can you only, can you ready, can you stack, can you still,
    cancellation*, cantrip*, cap on, carry capacity, carry on bag*, carry weapons, carrying capacity, cast a spell,
    cast it as, cast two, cast while, castling, chargeback, charter, check out time, checkmate, checkout time,
    citizenship, class feature*, clause*, clearance, code of conduct, collateral, compensat*, complian*, compliance,
    comply, compulsory, concentration, conditions for, conditions of, consent, considered a, considered an,
    considered as, considered magic, constitution, contract*, cooling off, copyright*, could a, could an, count as,
    count toward*, counted as, counterspell, counts as, counts for, counts toward*, counts when, court, cover bonus,
    crit on, critical fail*, critical hit*, critical success*, curfew, custody, customs, cut off date, cut off for,
    cutoff, damage does, damage from, damage on a, damage type*, data protection, days notice, days of leave,
    deadline*, deal damage, deals damage, death save*, death saving, decree*, deductible, deductions, defined as,
    definition of, deposit, difficult terrain, difficulty class, difficulty for, difficulty of, disadvantage,
    discard*, disclos*, dispel*, do attacks, do children, do creatures, do critical*, do damage, do dwarves, do
    elves, do employees, do guests, do i add, do i count, do i declare, do i get, do i have to, do i lose, do i make
    a, do i need, do i pay, do i provoke, do i still, do i take, do members, do monsters, do my, do our, do players,
    do spell*, do these effects, do these stack, do two, do visitors, do we need, do weapons, do you have to, do you
    need to, does a, does an, does any, does armor, does being, does casting, does company, does cover, does damage,
    does each, does every, does everybody have to, does everyone have to, does having, does it apply, does it cost,
    does it count, does it cover, does it require, does it stack, does it still, does magic, does moving, does my,
    does not apply, does one, does our, does poison, does standing, does that apply, does that cost, does that
    require, does the, does this apply, does this break, does this cover, does using, double damage, double dribble,
    draw a card, dress code, drinking age, drone*, due date, duty free, each round, each turn, edge case*, edict*,
    eligib*, en passant, encumbrance, end of a turn, end of my turn, end of the turn, enforceable, entitled, errata,
    etiquette, every round, every turn, evict*, exception to, exceptions to, exempt*, exhaustion, expense*,
    expenses, experience points, expire*, expiry, extra attack, extra time, extra turn, fair game, fall damage,
    falling damage, felony, fifth edition, fifth level, fined, fines, fire damage, firearm*, fireworks, first level,
    flank*, forbidden, foul, fouls, fourth level, free action, free kick, free parking, free throw, full action,
    full cover, gdpr, grace period, grappl*, grounds for, guarantee*, guideline*, half cover, half damage, hand
    size, handball, handbook, handled if, handled when, have the right, hazard*, higher level, hit dice, hit points,
    how big can, how close, how does, how early, how fast can, how fast may, how high can, how large, how late can,
    how late may, how long can, how long do, how long does, how long may, how many actions, how many attacks, how
    many bags, how many can, how many cards, how many carry, how many co, how many copies, how many days, how many
    dice, how many doses, how many guests, how many hours, how many items, how many kids, how many languages, how
    many may, how many members, how many passengers, how many people, how many pets, how many players, how many
    points, how many rounds, how many signatures, how many spell, how many spells, how many tablets, how many times,
    how many torches, how many turns, how many vacation, how many votes, how many weeks, how much alcohol, how much
    can, how much cash, how much damage, how much is it worth, how much is the fee, how much is the fine, how much
    may, how much movement, how much notice, how much time do, how much weight, how often, how old do, how old must,
    how soon, if a, if an, if both, if i am, if i attack, if i break, if i cancel, if i cast, if i die, if i drop,
    if i fail, if i fall, if i hit, if i leave early, if i lose, if i miss, if i move, if i pay late, if i play, if
    i quit, if i resign, if i return, if i roll, if i sell, if i stand up, if i use, if it lands, if it touches, if
    neither, if no one, if nobody, if one, if someone, if the ball, if the customer, if the player, if the target,
    if two, illegal*, immune to, immunity, in a round, in a turn, in accordance, in baseball, in basketball, in
    bounds, in breach, in bridge, in catan, in checkers, in chess, in cricket, in d&d, in dnd, in football, in golf,
    in hockey, in monopoly, in one turn, in poker, in rugby, in scrabble, in soccer, in tennis, in uno, in what
    case*, in which case, in writing, incapacitated, inheritance, initiative order, inspected, inspection*,
    insurance, insured, interest rate, invisib*, is a character, is a creature, is a player, is a spell, is able to,
    is considered, is covered, is he able, is it a crime, is it a free, is it against, is it considered, is it
    enough to, is it fine to, is it ok to, is it okay to, is it possible to, is supposed, is the player, is there a
    charge, is there a cost, is there a fee, is there a time, is there a way to, is there an age, is there any, is
    tied, jury, landlord, late fee*, late payment, law, lawful, laws, lawsuit, lease, legal*, legally, legislation,
    level five, level one, level three, level two, level up, leveling, liability, liable, licence*, license*, limit,
    limits, line of sight, long rest, loophole*, lose a turn, luggage, magic item*, mandatory, maternity, maximum,
    may a, may an, may i attack, may i bring, may i cast, may i deduct, may i keep, may i move, may i park, may i
    record, may i still, may i swap, may i take, may i use, may my, may not, may only, may players, may the, may
    they, may we, may you, minimum, misdemeanor, misdemeanour, modifier*, months notice, mortgage, movement speed,
    multiclass*, must a, must an, must employees, must guests, must i, must members, must players, must the, must
    they, must visitors, must we, must you, my action, my movement, my reaction, my speed, nat 20, nat twenty,
    natural one, natural twenty, need to roll, next turn, notar*, notice period, notice period*, oath*, obligat*,
    obliged, off hand, offence, offense, official*, officially, offside, old enough, on a critical, on a failure, on
    a hit, on a miss, on a natural, on a success*, on a tie, on initiative, on my turn, on their turn, on what
    grounds, on your turn, once per, only count, opportunity attack*, opposed check, opt in, opt out, ordinance, out
    of bounds, out of turn, outrank*, overdraft, overdue, overtime, paragraph eight, paragraph eleven, paragraph
    five, paragraph four, paragraph nine, paragraph one, paragraph seven, paragraph six, paragraph ten, paragraph
    three, paragraph twelve, paragraph two, paralyzed, parental leave, park here, park in, part of the action, pass
    go, patent*, paternity, payable, payout, penalt*, per day, per diem, per encounter, per level, per month, per
    person, per player, per rest, per round, per turn, per week, per year, perception check*, permissible,
    permission, permit, permits, permitted, points are, points do, points does, points is, points worth, policies,
    policy, privacy, probate, probation, procedure*, proficien*, prohibited, prone, protocol*, punishable, punished,
    punishment*, qualif*, quiet hours, quota, range of, re-roll*, red card, referee, refund*, regulated,
    regulation*, reimburs*, rent increase*, required, requirement*, reroll*, residency, resistan*, restricted,
    restriction*, retention, return window, returns, right of way, rights, roll again, roll doubles, rule*,
    rulebook*, ruling*, safety, same round, same turn, save against, saving throw*, seat belt*, second level,
    section eight, section eleven, section five, section four, section nine, section of the, section one, section
    seven, section six, section ten, section three, section twelve, section two, short rest, sick leave, sign off,
    skill check*, skip a turn, sneak attack*, spell level, spell save, spell slot*, stack with, stacking, stacks,
    stalemate, standard operating, standard rate, start of a turn, start of my turn, start of the turn, statute*,
    statutory, stealth check*, still count, strength check*, strictly speaking, subclass, sublet*, subsection,
    supersede*, supposed to, surcharge, surprise round, taboo*, tailgating, take damage, take precedence, takes
    damage, takes precedence, takes priority, tax, taxable, taxes, tell me whether, temporary hit, tenancy, tenant*,
    terms and conditions, terms of, the book say, the fine for, the manual, the reaction, the right to, the terms,
    third level, threshold, tie break*, tie breaker, tiebreak*, trademark*, tradition*, treated as, trespass*, twice
    per, two handed, two weapon, umpire, unconscious, under section, under what, unlawful, unpaid leave,
    unsubscribe, use my bonus, use two, vacation days, valid for, vat, victory points, violat*, voting age, vow*,
    vulnerab*, warranty, weeks notice, what ability, what are my, what are our, what are the action cost, what are
    the area of, what are the bonus, what are the casting time, what are the conditions, what are the consequences
    of, what are the correct way, what are the cost of, what are the custom, what are the damage, what are the dc,
    what are the difference, what are the difficulty, what are the duration, what are the exceptions, what are the
    fee, what are the notice, what are the odds of, what are the prerequisites, what are the process for, what are
    the proper, what are the range, what are the rate for, what are the save, what are the standard, what bonus,
    what conditions, what constitutes, what counts, what dice, what die, what do i roll, what do the, what
    documents, what does article, what does paragraph, what does section, what happens at, what happens in, what
    happens on, what happens to, what happens when, what is the action cost, what is the area of, what is the bonus,
    what is the casting time, what is the conditions, what is the consequences of, what is the correct way, what is
    the cost of, what is the custom, what is the damage, what is the dc, what is the difference, what is the
    difficulty, what is the duration, what is the exceptions, what is the fee, what is the notice, what is the odds
    of, what is the prerequisites, what is the process for, what is the proper, what is the range, what is the rate
    for, what is the save, what is the standard, what kind of action, what makes a, what order, what size of, what
    triggers, what type of action, what's considered, what's our, what's the action cost, what's the age, what's the
    area, what's the bonus, what's the casting time, what's the conditions, what's the consequences of, what's the
    correct, what's the cost, what's the custom, what's the damage, what's the dc, what's the difference, what's the
    difficulty, what's the duration, what's the exceptions, what's the fee, what's the fine, what's the notice,
    what's the odds of, what's the prerequisites, what's the process, what's the proper, what's the range, what's
    the rate for, what's the save, what's the speed, what's the standard, when i roll, when you roll, which ability,
    which action, which dice, which save, which skill, while concentrating, while driving, while flying, while
    holding, while mounted, while on duty, while raging, while wearing, who can, wild card*, wild shape, win
    condition*, without a ticket, without notice, without paying, without telling, witness*, yellow card, zoning
""")
"""Specific rules: of a game, a house, a contract, a law."""
